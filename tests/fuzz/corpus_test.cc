// The seeds of the fuzzers of readers of the library, in the ordinary tests.
#include <cstdlib>
#include <random>

#include "fuzz/corpus.h"

namespace gnomon::fuzz {
namespace fuzz_corpus_test {

const std::filesystem::path seeds = corpus("tests/fuzz");

TEST(Corpus, EveryReaderAnswersEverySeed) { expect_answers(seeds); }
TEST(Corpus, EverySeedHasAReader) { expect_readers(seeds); }
TEST(Corpus, EveryReaderSurvivesChangedSeeds) { change_seeds(seeds, 64); }

// Attention and rotation on drawn arguments, on each instruction set of the machine, against
// loops in double, and the C API against the same bits. GNOMON_DRAWN: the number of inputs.
TEST(Corpus, KernelsAreRightOnDrawnInputs) {
  const char* const wanted = std::getenv("GNOMON_DRAWN");
  const std::int64_t count = wanted ? std::atoll(wanted) : 250;
  for (const Target& target : targets()) {
    if (target.name != "attention" && target.name != "rotation") continue;
    std::int64_t right = 0;
    for (drawn_input = 0; drawn_input < count; ++drawn_input) {
      std::mt19937_64 engine(static_cast<std::uint64_t>(drawn_input));
      std::vector<std::byte> bytes(240);
      for (std::byte& one : bytes) one = static_cast<std::byte>(engine());
      right += target.reader(bytes);
    }
    drawn_input = -1;
    std::printf("%s: %lld of %lld drawn inputs were computed, the others refused\n",
                std::string(target.name).c_str(), static_cast<long long>(right),
                static_cast<long long>(count));
    EXPECT_GT(right, count / 2) << target.name;
  }
}

}  // namespace fuzz_corpus_test
}  // namespace gnomon::fuzz
