// safetensors: single files and shards, and every way in which they can be wrong (PITFALLS "Models and files").
#include "model/files/safetensors.h"

#include "tests/files/test_files.h"

namespace kvlab::test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kTwoTensors =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
    R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[8,14]}})";
const std::string kFourteenBytes(14, '\x3f');

std::string error_of(const std::string& bytes) {
  const TemporaryFolder folder;
  folder.write("model.safetensors", bytes);
  const std::string message = input_error([&] { SafetensorsFolder::open(folder.path()); });
  EXPECT_THAT(message, HasSubstr("model.safetensors")) << "the message must name the file";
  return message;
}

std::string error_of_header(const std::string& header) { return error_of(safetensors_image(header, kFourteenBytes)); }

/// A header with one tensor "a" of these fields.
std::string one_tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

TEST(Safetensors, TensorsAreFoundByName) {
  const TemporaryFolder folder;
  folder.write("model.safetensors", safetensors_image(kTwoTensors, kFourteenBytes));
  const auto file = SafetensorsFolder::open(folder.path());
  ASSERT_EQ(file->tensors().size(), 2U);
  const TensorInfo* a = file->find_tensor("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->type, "F32");
  EXPECT_THAT(a->shape, ElementsAre(2, 1));
  EXPECT_EQ(a->data.size(), 8U);
  EXPECT_EQ(file->find_tensor("b")->data.data(), a->data.data() + 8);
  EXPECT_EQ(file->find_tensor("__metadata__"), nullptr);
}

TEST(Safetensors, AHeaderLengthOutOfRangeIsRefused) {
  const std::string rest = std::string(kTwoTensors) + kFourteenBytes;
  EXPECT_THAT(error_of(""), HasSubstr("cut short"));
  EXPECT_THAT(error_of(bytes_of<std::uint64_t>(0) + rest), HasSubstr("header is 0 bytes"));
  EXPECT_THAT(error_of(bytes_of(std::uint64_t{1} << 63) + rest), HasSubstr("9223372036854775808"));
  EXPECT_THAT(error_of(bytes_of(~std::uint64_t{0}) + rest), HasSubstr("header is"));
  EXPECT_THAT(error_of(bytes_of<std::uint64_t>(100'000'000) + rest), HasSubstr("cut short"));
  EXPECT_THAT(error_of(bytes_of<std::uint64_t>(rest.size() + 1) + rest), HasSubstr("cut short"));
}

TEST(Safetensors, AHeaderThatIsNoObjectIsRefused) {
  for (const char* header : {"[]", "1", "null", "\"a\""}) EXPECT_THAT(error_of_header(header), HasSubstr("object"));
  EXPECT_THAT(error_of_header("{\"a\":"), HasSubstr("not well-formed JSON at byte"));
  EXPECT_THAT(error_of_header("{} x"), HasSubstr("not well-formed"));
  EXPECT_THAT(error_of_header(R"({"a":[]})"), HasSubstr("'a'"));
  EXPECT_THAT(error_of_header(R"({"a":{}})"), HasSubstr("no dtype"));
  EXPECT_THAT(error_of_header(std::string(5000, '[')), HasSubstr("nested"));
}

TEST(Safetensors, DuplicateKeysAreRefused) {
  const std::string tensor = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_THAT(error_of_header(R"({"a":)" + tensor + R"(,"a":)" + tensor + "}"), HasSubstr("duplicate key 'a'"));
  EXPECT_THAT(error_of_header(R"({"a":{"dtype":"F32","dtype":"F16","shape":[1],"data_offsets":[0,4]}})"),
              HasSubstr("duplicate key 'dtype'"));
}

TEST(Safetensors, WrongFieldsAreRefusedWithTheTensor) {
  EXPECT_THAT(error_of_header(one_tensor("7", "[1]", "[0,4]")), AllOf(HasSubstr("'a'"), HasSubstr("dtype")));
  EXPECT_THAT(error_of_header(one_tensor("\"F33\"", "[1]", "[0,4]")), HasSubstr("'F33'"));
  EXPECT_THAT(error_of_header(one_tensor("\"Q8_0\"", "[32]", "[0,14]")), HasSubstr("'Q8_0'"));
  EXPECT_THAT(error_of_header(one_tensor("\"F32\"", "7", "[0,4]")), HasSubstr("shape"));
  for (const char* length : {"-1", "1.5", "1e3", "\"1\"", "null"}) {
    EXPECT_THAT(error_of_header(one_tensor("\"F32\"", std::string("[") + length + "]", "[0,4]")),
                AllOf(HasSubstr("shape"), HasSubstr("'a'")))
        << length;
  }
  EXPECT_THAT(error_of_header(one_tensor("\"F32\"", "[1]", "[0]")), HasSubstr("data_offsets"));
  EXPECT_THAT(error_of_header(one_tensor("\"F32\"", "[1]", "[0,-4]")), HasSubstr("data_offsets"));
  EXPECT_THAT(error_of_header(one_tensor("\"F32\"", "[9223372036854775807,4]", "[0,14]")), HasSubstr("64 bits"));
  EXPECT_THAT(error_of_header(one_tensor("\"F32\"", "[18446744073709551615]", "[0,14]")), HasSubstr("64 bits"));
  EXPECT_THAT(error_of_header(one_tensor("\"F32\"", "[4611686018427387904]", "[0,14]")), HasSubstr("do not take"));
}

TEST(Safetensors, BytesMustBeShapeTimesDtype) {
  EXPECT_THAT(error_of_header(one_tensor("\"F32\"", "[3]", "[0,14]")), HasSubstr("do not take 14 bytes"));
  EXPECT_THAT(error_of_header(one_tensor("\"F32\"", "[0]", "[0,14]")), HasSubstr("do not take 14 bytes"));
}

TEST(Safetensors, OffsetsMustTileTheData) {
  EXPECT_THAT(error_of_header(one_tensor("\"U8\"", "[4]", "[8,4]")), HasSubstr("not inside"));    // begin > end
  EXPECT_THAT(error_of_header(one_tensor("\"U8\"", "[15]", "[0,15]")), HasSubstr("not inside"));  // past the end
  EXPECT_THAT(error_of_header(one_tensor("\"U8\"", "[13]", "[1,14]")), HasSubstr("gap"));
  EXPECT_THAT(error_of_header(one_tensor("\"U8\"", "[13]", "[0,13]")), HasSubstr("cover 13"));
  EXPECT_THAT(error_of_header("{}"), HasSubstr("cover 0"));
  const auto two = [](const char* first, const char* second) {
    return std::string(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":)") + first +
           R"(},"b":{"dtype":"U8","shape":[6],"data_offsets":)" + second + "}}";
  };
  EXPECT_THAT(error_of_header(two("[0,8]", "[7,13]")), AllOf(HasSubstr("overlap"), HasSubstr("'b'")));
  EXPECT_THAT(error_of_header(two("[0,8]", "[0,6]")), HasSubstr("overlap"));
}

/// Two shards with one tensor each, and their index.
class Shards {
 public:
  Shards() {
    write_shard("model-1.safetensors", "a");
    write_shard("model-2.safetensors", "b");
    write_index(R"("a":"model-1.safetensors","b":"model-2.safetensors")");
  }
  void write_shard(const std::string& name, const std::string& tensor) {
    folder_.write(
        name, safetensors_image(R"({")" + tensor + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "1234"));
  }
  void write_index(const std::string& map) {
    folder_.write("model.safetensors.index.json", R"({"metadata":{"total_size":8},"weight_map":{)" + map + "}}");
  }
  std::unique_ptr<SafetensorsFolder> open() const { return SafetensorsFolder::open(folder_.path()); }
  std::string error() const {
    return input_error([this] { open(); });
  }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
};

TEST(Safetensors, ShardsOfAnIndexAreOneCheckpoint) {
  const Shards shards;
  const auto file = shards.open();
  EXPECT_EQ(file->tensors().size(), 2U);
  EXPECT_NE(file->find_tensor("a"), nullptr);
  EXPECT_NE(file->find_tensor("b"), nullptr);
}

TEST(Safetensors, AMissingShardIsNamed) {
  const Shards shards;
  std::filesystem::remove(shards.folder().path() + "/model-2.safetensors");
  EXPECT_THAT(shards.error(), AllOf(HasSubstr("index.json"), HasSubstr("model-2.safetensors"), HasSubstr("missing")));
}

TEST(Safetensors, AFileThatTheIndexDoesNotNameIsLeftAlone) {
  Shards shards;
  shards.folder().write("model-3.safetensors", "not even a safetensors file");
  EXPECT_EQ(shards.open()->tensors().size(), 2U);
}

TEST(Safetensors, ShardsAndIndexMustAgree) {
  Shards shards;
  shards.write_index(R"("a":"model-1.safetensors","c":"model-2.safetensors")");
  EXPECT_THAT(shards.error(), AllOf(HasSubstr("model-2.safetensors"), HasSubstr("'b'"), HasSubstr("index.json")));
  shards.write_index(R"("a":"model-1.safetensors","b":"model-2.safetensors","c":"model-2.safetensors")");
  EXPECT_THAT(shards.error(), AllOf(HasSubstr("'c'"), HasSubstr("does not hold it")));
  shards.write_shard("model-2.safetensors", "a");
  EXPECT_THAT(shards.error(), HasSubstr("'a'"));
}

TEST(Safetensors, AnIndexMustNameFilesOfItsFolder) {
  Shards shards;
  for (const char* name : {"../model-1.safetensors", "/etc/passwd", "", "..", "sub/model-1.safetensors"}) {
    shards.write_index(std::string(R"("a":")") + name + '"');
    EXPECT_THAT(shards.error(), HasSubstr("not the name of a file in this folder")) << name;
  }
  shards.write_index(R"("a":1)");
  EXPECT_THAT(shards.error(), HasSubstr("'a' is no file name"));
  shards.write_index("");
  EXPECT_THAT(shards.error(), HasSubstr("is empty"));
  shards.folder().write("model.safetensors.index.json", "[]");
  EXPECT_THAT(shards.error(), HasSubstr("weight_map"));
}

TEST(Safetensors, AFolderWithoutWeightsIsRefused) {
  const TemporaryFolder folder;
  EXPECT_THAT(input_error([&] { SafetensorsFolder::open(folder.path()); }), HasSubstr("neither model.safetensors nor"));
}

}  // namespace
}  // namespace kvlab::test
