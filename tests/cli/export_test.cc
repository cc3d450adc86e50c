// `gnomon export`: the file, the JSON, errors. The numbers: tests/onnx.
#include <fstream>

#include "gnomon/io/file.h"
#include "program.h"

namespace gnomon::cli {
namespace cli_export_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ExportProgram : public InFolder {
 protected:
  std::string config() const {
    std::ofstream(file("config.json"))
        << R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 8,)"
           R"( "num_hidden_layers": 2, "max_position_embeddings": 32})";
    return file("config.json");
  }
};

TEST_F(ExportProgram, WritesAModel) {
  const std::string json = done({"export", config(), "--json", "-o", file("f.onnx")});
  EXPECT_THAT(json, HasSubstr(R"("Attention":1)"));
  EXPECT_THAT(json, HasSubstr(R"("name":"positions")"));
  const io::MappedFile mapped(file("f.onnx"));
  EXPECT_EQ(mapped.text().substr(0, 2), "\x08\x0b");  // ir_version 11
  EXPECT_EQ(done({"export", config(), "--operators", "microsoft", "--layer", "1", "-o",
                  file("f.onnx")}),
            "");
}

TEST_F(ExportProgram, Refuses) {
  EXPECT_EQ(refused({"export", config(), "--layer", "2", "-o", file("f.onnx")}),
            "gnomon: [model] layer must be one of 2, got 2\n");
  EXPECT_THAT(refused({"export", config(), "-o", file("f.npy")}), HasSubstr(".onnx"));
  EXPECT_THAT(refused({"export", config(), "--grid", "4x4", "-o", file("f.onnx")}),
              HasSubstr("an image must be given for image layers only"));
  EXPECT_THAT(refused({"export", config(), "--operators", "tensorrt", "-o", file("f.onnx")}),
              HasSubstr("microsoft"));
  EXPECT_THAT(names(), ElementsAre("config.json"));
}

}  // namespace cli_export_test
}  // namespace gnomon::cli
