#include "gnomon/torch/state.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gnomon/error.h"
#include "gnomon/io/safetensors.h"
#include "gnomon/torch/scheme.h"
#include "io/temporary.h"
#include "torch/testing.h"

namespace gnomon::libtorch {
namespace torch_state_test {

using namespace testing;  // NOLINT
using gnomon::testing::contents;
using gnomon::testing::put;
using gnomon::testing::TemporaryFolder;

// A model of a user: layers of its own, a buffer, Gnomon's modules.
struct ModelImpl : torch::nn::Module {
  explicit ModelImpl(std::int64_t t5_heads = heads) {
    linear = register_module("linear", torch::nn::Linear(3, 2));
    position = register_module(
        "position",
        PositionEncoding(T5Bias{.heads = t5_heads, .direction = T5Direction::causal}));
    scheme = register_module(
        "scheme", PositionScheme(model::parse_scheme("learned+t5*3/learned+swin", shape, 4)));
    steps = register_buffer("steps", at::full({}, 5, at::kLong));
    for (const at::Tensor& one : parameters()) one.detach().normal_();
  }
  torch::nn::Linear linear{nullptr};
  PositionEncoding position{nullptr};
  PositionScheme scheme{nullptr};
  at::Tensor steps;
};
TORCH_MODULE(Model);

class State : public ::testing::Test {
 protected:
  const TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_ / "state.safetensors";
  // The file with other tensors and metadata.
  void write(const std::map<std::string, at::Tensor>& tensors, const io::Metadata& metadata) {
    std::vector<io::NamedArray> arrays;
    for (const auto& [name, tensor] : tensors) arrays.push_back({name, to_array(tensor)});
    io::write_safetensors(path_, arrays, metadata);
  }
  // What load_state says; nothing changes.
  template <typename Module>
  void refused(Module module, const std::vector<std::string>& parts) {
    std::vector<at::Tensor> before;
    for (const at::Tensor& one : module->parameters()) before.push_back(one.clone());
    expect_refusal([&] { load_state(*module, path_); }, parts);
    for (std::size_t i = 0; i < before.size(); ++i)
      EXPECT_TRUE(module->parameters()[i].equal(before[i]));
  }
};

TEST_F(State, OfAModelIsReadBack) {
  const Model model;
  save_state(*model, path_);
  Model other;
  other->steps.fill_(0);
  const at::Tensor weight = other->linear->weight;
  load_state(*other, path_);
  EXPECT_TRUE(other->linear->weight.is_same(weight));  // optimizers keep their tensors
  EXPECT_TRUE(weight.requires_grad());
  EXPECT_EQ(other->steps.item<std::int64_t>(), 5);
  const auto wanted = model->named_parameters(), found = other->named_parameters();
  ASSERT_EQ(found.size(), 6);
  for (const auto& item : wanted)
    EXPECT_TRUE(found[item.key()].equal(item.value())) << item.key();
}

// What other programs find in the file.
TEST_F(State, HasTheNamesOfTheModel) {
  const Model model;
  save_state(*model, path_);
  const io::SafeTensors file(path_);
  std::set<std::string> names;
  for (const io::TensorEntry& one : file.tensors()) names.insert(one.name);
  EXPECT_EQ(names, (std::set<std::string>{"linear.weight", "linear.bias", "position.buckets",
                                          "steps", "scheme.table.table",
                                          "scheme.layer0.buckets", "scheme.layer3.table"}));
  EXPECT_EQ(file.find("steps")->dtype, "I64");
  EXPECT_EQ(file.find("position.buckets")->shape, (io::Array::Shape{32, heads}));
  const float* values = file.tensor("linear.bias").view<float, 1>().data();
  EXPECT_EQ(values[1], model->linear->bias[1].item<float>());
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.metadata().at("gnomon_state"), "1");
  EXPECT_EQ(model::scheme_from_json(file.metadata().at("gnomon:scheme")),
            model->scheme->scheme());
  const auto layers = model::scheme_from_json(file.metadata().at("gnomon:position")).layers;
  ASSERT_EQ(layers.size(), 1);
  EXPECT_EQ(layers[0], model->position->mixture());
}

TEST_F(State, OfEachTypeAndStridesIsReadBack) {
  for (const auto type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong,
                          at::kInt, at::kShort, at::kChar, at::kByte, at::kBool}) {
    torch::nn::Module module, other;
    const at::Tensor values = at::arange(6).view({3, 2}).t().to(type);
    module.register_buffer("x", values);
    module.register_buffer("empty", at::empty({0, 3}, type));
    save_state(module, path_);
    const at::Tensor read = other.register_buffer("x", at::zeros({2, 3}, type));
    other.register_buffer("empty", at::empty({0, 3}, type));
    load_state(other, path_);
    EXPECT_TRUE(read.equal(values)) << type;
  }
  torch::nn::Module complex, sparse;
  complex.register_buffer("x", at::zeros({2}, at::kComplexFloat));
  expect_refusal([&] { save_state(complex, path_); }, {"x must have a type", "ComplexFloat"});
  sparse.register_buffer("x", at::eye(2).to_sparse());
  expect_refusal([&] { save_state(sparse, path_); }, {"x must be a strided tensor"});
}

TEST_F(State, OfOtherEncodingsIsRefused) {
  const auto saved_by = [&](const PositionEncoding& one) { save_state(*one, path_); };
  const PositionEncoding four(T5Bias{.heads = 4, .direction = T5Direction::causal});
  const PositionEncoding eight(T5Bias{.heads = 8, .direction = T5Direction::causal});
  saved_by(four);
  refused(eight, {"the module", "\"heads\":8", "\"heads\":4"});
  // The same sizes, but another encoding.
  const PositionEncoding encoder(T5Bias{.heads = 4, .direction = T5Direction::bidirectional});
  refused(encoder, {"bidirectional", "\"causal\""});
  const PositionEncoding rotary(Rotary{.rotary_dim = 8, .pairing = Pairing::halves});
  refused(rotary, {"rotary", "t5"});
  const PositionEncoding both(model::Mixture{usual("rotary"), usual("t5")});
  refused(both, {"rotary", "t5"});
  saved_by(rotary);
  refused(PositionEncoding(Rotary{.rotary_dim = 8, .pairing = Pairing::adjacent}),
          {"adjacent", "halves"});
  PositionEncoding same(rotary->mixture());
  EXPECT_NO_THROW(load_state(*same, path_));
  // As a part of a model.
  save_state(*Model(8), path_);
  refused(Model(4), {"\"position\"", "\"heads\":4", "\"heads\":8"});
  saved_by(four);
  refused(Model(4), {"no encodings of \"position\""});
  save_state(*Model(4), path_);
  refused(four, {"no encodings of the module"});
  // Gnomon's module instead of another one with the same parameters.
  torch::nn::ModuleList whole, plain;
  whole->push_back(four);
  plain->push_back(torch::nn::Module());
  plain[0]->register_parameter("buckets", at::zeros({32, 4}));
  save_state(*whole, path_);
  refused(plain, {"encodings of \"0\", which the module does not have"});
}

// Names, shapes, types.
TEST_F(State, OfOtherTensorsIsRefused) {
  PositionEncoding position(T5Bias{.heads = 4, .direction = T5Direction::causal});
  save_state(*position, path_);
  const io::Metadata metadata = io::SafeTensors(path_).metadata();
  const at::Tensor good = at::ones({32, 4});
  write({{"buckets", at::ones({32, 8})}}, metadata);
  refused(position, {"\"buckets\" must be F32 [32, 4]", "F32 [32, 8]"});
  write({{"buckets", at::ones({4, 32})}}, metadata);
  refused(position, {"\"buckets\" must be F32 [32, 4]", "F32 [4, 32]"});
  write({{"buckets", good.to(at::kHalf)}}, metadata);
  refused(position, {"\"buckets\" must be F32 [32, 4]", "F16 [32, 4]"});
  write({}, metadata);
  refused(position, {"no tensor \"buckets\""});
  write({{"buckets", good}, {"more\n", good}}, metadata);
  refused(position, {"the tensor \"more\\x0a\", which the module does not have"});
  write({{"buckets", good}}, metadata);
  load_state(*position, path_);
  EXPECT_TRUE(position->parameters()[0].equal(good));
}

// Files of other programs, of later versions, and of torch::save.
TEST_F(State, OfAnotherLayoutIsRefused) {
  PositionEncoding position(T5Bias{.heads = 4, .direction = T5Direction::causal});
  save_state(*position, path_);
  const io::Metadata metadata = io::SafeTensors(path_).metadata();
  const auto with = [&](const std::string& key, const std::string& value) {
    io::Metadata other = metadata;
    other[key] = value;
    write({{"buckets", at::ones({32, 4})}}, other);
  };
  write({{"buckets", at::ones({32, 4})}}, {{"format", "pt"}});
  refused(position, {"a file that save_state did not write"});
  with("gnomon_state", "2");
  refused(position, {"layout \"2\", which version 0.1.0 wrote"});
  for (const char* text :
       {"", "[]", "{}", R"({"layers": 1})", R"({"layers": [1]})", R"({"layers": [[{}]]})",
        R"({"layers": [[{"kind": "later"}]]})", R"({"layers": [], "more": 1})", "[[[["}) {
    with("gnomon:", text);
    refused(position, {"must contain for the module", "\"t5\""});
  }
  with("gnomon:", std::string(100000, '['));
  refused(position, {"must contain for the module"});
  with("other", "text");  // metadata of other programs
  EXPECT_NO_THROW(load_state(*position, path_));
  // An earlier layout: an archive of LibTorch. PyTorch's older files are pickles.
  torch::serialize::OutputArchive archive;
  archive.write("buckets", at::zeros({32, 4}));
  archive.save_to(path_.string());
  refused(position, {"an archive of LibTorch or PyTorch", "write it again"});
  put(path_, "\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.");
  refused(position, {"an archive of LibTorch or PyTorch"});
  expect_refusal([&] { load_state(*position, "/no/such/file"); }, {"/no/such/file"});
}

// A changed file is read as a whole or refused as a whole, with an exception of the two types.
TEST_F(State, OfChangedBytesIsReadOrRefused) {
  const Model model;
  Model other;
  save_state(*model, path_);
  const std::string whole = contents(path_);
  std::uint64_t header = 0;
  std::memcpy(&header, whole.data(), 8);
  std::mt19937 random(3);
  int refusals = 0;
  for (int i = 0; i < 400; ++i) {
    std::string bytes = whole;
    if (i % 4 == 0) bytes.resize(random() % whole.size());
    const std::size_t range = std::min<std::size_t>(bytes.size(), header + 8);
    if (range) bytes[random() % range] ^= static_cast<char>(1 << random() % 8);
    put(path_, bytes);
    const at::Tensor before = other->position->parameters()[0].clone();
    try {
      load_state(*other, path_);
    } catch (const FormatError&) {
      ++refusals;
      EXPECT_TRUE(other->position->parameters()[0].equal(before));
    } catch (const std::invalid_argument&) {
      ++refusals;
      EXPECT_TRUE(other->position->parameters()[0].equal(before));
    }
  }
  EXPECT_GT(refusals, 350);
}

}  // namespace torch_state_test
}  // namespace gnomon::libtorch
