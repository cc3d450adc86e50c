// Reader: apps/lab/tasks/finetune_tokens.cc apps/lab/tasks/finetune_word_pieces.cc
#include <unistd.h>
#include <filesystem>
#include <fstream>
#include <string>

#include "apps/lab/tasks/finetune_tokenizer.h"
#include "fuzz/target.h"

namespace gnomon::fuzz {
namespace tokenizer_fuzz {

namespace fs = std::filesystem;

// Between two files of a tokenizer: vocab.json and merges.txt, or vocab.txt and
// tokenizer_config.json.
constexpr char separator = '\x1e';

constexpr std::string_view samples[] = {"The quick brown fox, 42 times!", " \n\t",
                                        "na\u00efve \u6f22\u5b57 \U0001f600", "\xff\xc3(", ""};

// A folder of this process.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("gnomon_fuzz_" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  void write(const char* name, std::string_view contents) const {
    std::ofstream(path / name, std::ios::binary) << contents;
  }
  void clear() const {
    for (const auto& entry : fs::directory_iterator(path)) fs::remove(entry.path());
  }
};

bool read(std::span<const std::byte> bytes) {
  static const Folder folder;
  constexpr std::int64_t vocabulary = 600;
  const std::size_t mark = text(bytes).find(separator);
  const std::string_view first = text(bytes).substr(0, mark),
                         second = mark == first.npos ? "" : text(bytes).substr(mark + 1);
  const bool json = first.starts_with('{');
  if (mark == first.npos) {
    folder.write(json ? "tokenizer.json" : "vocab.txt", first);
  } else {
    folder.write(json ? "vocab.json" : "vocab.txt", first);
    folder.write(json ? "merges.txt" : "tokenizer_config.json", second);
  }
  const bool good = answered([&] {
    const auto tokenizer = lab::finetune::read_tokenizer(folder.path, vocabulary);
    for (const std::string_view sample : samples) {
      const lab::finetune::Tokens tokens = tokenizer->encode(sample);
      std::int64_t sum = 0;
      require(tokens.ids.size() == tokens.bytes.size());
      for (const std::int64_t count : tokens.bytes) sum += count;
      for (const std::int64_t id : tokens.ids) require(id >= 0 && id < vocabulary);
      require(tokens.ids.empty() ||
              sum == std::ssize(sample));  // white space has no word piece
    }
  });
  folder.clear();
  return good;
}

const Register registered("tokenizer", read);

}  // namespace tokenizer_fuzz
}  // namespace gnomon::fuzz
