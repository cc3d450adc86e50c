// The seeds of the fuzzers of readers of the lab, in the ordinary tests.
#include "fuzz/corpus.h"

namespace gnomon::fuzz {
namespace fuzz_lab_corpus_test {

const std::filesystem::path seeds = corpus("tests/fuzz/lab");

TEST(LabCorpus, EveryReaderAnswersEverySeed) { expect_answers(seeds); }
TEST(LabCorpus, EverySeedHasAReader) { expect_readers(seeds); }
TEST(LabCorpus, EveryReaderSurvivesChangedSeeds) { change_seeds(seeds, 8); }

}  // namespace fuzz_lab_corpus_test
}  // namespace gnomon::fuzz
