#include "apps/lab/data/tokenizer.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "apps/lab/data/numbers.h"
#include "gnomon/error.h"

extern char** environ;

namespace gnomon::lab {
namespace {

namespace fs = std::filesystem;

// gnomon-tokenizer is beside gnomon-lab.
std::string program() {
  std::error_code ignored;
  const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const char* place : {"gnomon-tokenizer", "../apps/lab/gnomon-tokenizer"})
    if (fs::exists(folder / place, ignored)) return folder / place;
  refuse("lab", "--tokens bpe requires the program gnomon-tokenizer beside gnomon-lab",
         folder.string());
}

[[noreturn]] void refuse_start(int error) {
  refuse("lab", "gnomon-tokenizer must start", std::strerror(error));
}

// Runs gnomon-tokenizer with `input` and returns its output.
std::string run(std::vector<std::string> words, std::string_view input) {
  words.insert(words.begin(), program());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const int from = ::memfd_create("tokenizer-input", MFD_CLOEXEC);
  int ends[2];
  if (from < 0 || ::pipe2(ends, O_CLOEXEC) != 0) refuse_start(errno);
  for (std::size_t at = 0; at < input.size();) {
    const ssize_t count = ::write(from, input.data() + at, input.size() - at);
    if (count < 0) refuse_start(errno);
    at += static_cast<std::size_t>(count);
  }
  ::lseek(from, 0, SEEK_SET);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, from, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
  pid_t child = 0;
  const int error = posix_spawn(&child, argv[0], &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  ::close(from);
  ::close(ends[1]);
  std::string output;
  char block[1 << 16];
  for (ssize_t count; error == 0 && (count = ::read(ends[0], block, sizeof block)) != 0;) {
    if (count > 0)
      output.append(block, static_cast<std::size_t>(count));
    else if (errno != EINTR)
      break;
  }
  ::close(ends[0]);
  if (error != 0) refuse_start(error);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) throw std::invalid_argument(output);
  if (status != 0) refuse("lab", "gnomon-tokenizer must end normally", status);
  return output;
}

}  // namespace

std::optional<std::int64_t> parse_tokens(const std::string& tokens) {
  if (tokens == "bytes") return std::nullopt;
  const auto size = tokens.starts_with("bpe:") ? parse_integer(tokens.substr(4)) : std::nullopt;
  if (!size || *size < 512 || *size > 32000)
    refuse("lab", "--tokens must be bytes or bpe:N with N from 512 to 32000", tokens);
  return size;
}

Tokenizer::Tokenizer(std::string serialized) : serialized_(std::move(serialized)) {
  const std::string pieces = run({"pieces"}, serialized_);
  for (std::size_t at = 0; at < pieces.size();) {
    std::uint32_t size = 0;
    std::memcpy(&size, pieces.data() + at, sizeof size);
    bytes_.push_back(pieces.substr(at + sizeof size, size));
    at += sizeof size + size;
  }
}

std::shared_ptr<const Tokenizer> Tokenizer::train(const std::vector<std::string>& texts,
                                                  std::int64_t size) {
  std::string all;
  for (const std::string& text : texts) (all += text) += '\n';
  return load(run({"train", std::to_string(size)}, all));
}

std::shared_ptr<const Tokenizer> Tokenizer::load(std::string serialized) {
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(serialized)));
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  const std::uint64_t size = serialized_.size();
  std::string input(reinterpret_cast<const char*>(&size), sizeof size);
  (input += serialized_) += text;
  const std::string output = run({"encode"}, input);
  std::vector<std::int32_t> tokens(output.size() / sizeof(std::int32_t));
  if (!tokens.empty())
    std::memcpy(tokens.data(), output.data(), tokens.size() * sizeof(std::int32_t));
  std::size_t at = 0;
  for (const std::int32_t token : tokens) {
    const std::string& here = bytes(token);
    if (here.empty() || text.substr(at, here.size()) != here) break;
    at += here.size();
  }
  if (at != text.size())
    refuse("lab", "--tokens bpe requires UTF-8 text without the character U+2581",
           "another text at byte " + std::to_string(at));
  return tokens;
}

}  // namespace gnomon::lab
