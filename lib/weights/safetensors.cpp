// Parses the header of a safetensors file, trusting nothing in it, and hands out the mapped bytes of its tensors.
#include "weights/safetensors.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file_kind.h"
#include "base/json_value.h"

namespace fathom::weights {
namespace {

constexpr int64_t kMaxHeaderBytes =
    32 << 20;                          // a tenth of it is much already; the reference implementation takes 100 MB
constexpr size_t kMaxDimensions = 64;  // as LibTorch
constexpr size_t kMaxNameBytes = 4096;
constexpr char kRemedy[] = "the file is damaged or is not safetensors: download or export it again";

// Receives the header's events one by one, so that depth, duplicates and types are checked before anything is stored.
// The only shapes that exist: {name: {"dtype": text, "shape": [n...], "data_offsets": [n, n]}} and
// {"__metadata__": {text: text}}.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(std::string origin) : origin_(std::move(origin)) {}

  std::vector<TensorInfo> tensors;
  std::map<std::string, std::string> metadata;

  bool start_object(size_t) override {
    if (depth_ == 0) return enter(Place::kTop);
    if (place_ == Place::kTop) return in_metadata_ ? enter(Place::kMetadata) : start_tensor();
    return fail("an object stands where none belongs");
  }

  bool end_object() override {
    if (place_ == Place::kTensor) finish_tensor();
    place_ = depth_ == 2 ? Place::kTop : Place::kNone;
    --depth_;
    return true;
  }

  bool key(string_t& name) override {
    if (place_ == Place::kTop) return top_key(name);
    if (place_ == Place::kMetadata) {
      key_ = name;
      if (metadata.count(name)) return fail("metadata key '" + name + "' occurs twice");
      return true;
    }
    if (name != "dtype" && name != "shape" && name != "data_offsets") return fail("unknown field '" + name + "'");
    if (!fields_.insert(name).second) return fail("field '" + name + "' occurs twice");
    key_ = name;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::kTensor || key_ == "dtype") return fail("a list stands where none belongs");
    return enter(key_ == "shape" ? Place::kShape : Place::kOffsets);
  }

  bool end_array() override {
    place_ = Place::kTensor;
    --depth_;
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      metadata[key_] = value;
      return true;
    }
    if (place_ != Place::kTensor || key_ != "dtype") return fail("text stands where none belongs");
    try {
      tensor_.dtype = dtype_from_safetensors(value);
    } catch (const Error& error) {
      return fail(error.what());
    }
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return fail("a number is out of range");
    auto number = static_cast<int64_t>(value);
    if (place_ == Place::kShape) {
      if (tensor_.shape.size() == kMaxDimensions) return fail("more than 64 dimensions");
      tensor_.shape.push_back(number);
      return true;
    }
    if (place_ == Place::kOffsets) {
      if (offsets_.size() == 2) return fail("data_offsets has more than two numbers");
      offsets_.push_back(number);
      return true;
    }
    return fail("a number stands where none belongs");
  }

  bool number_integer(number_integer_t) override { return fail("a number is negative"); }
  bool number_float(number_float_t, const string_t&) override { return fail("a number is not a whole number"); }
  bool null() override { return fail("null stands where none belongs"); }
  bool boolean(bool) override { return fail("a boolean stands where none belongs"); }
  bool binary(binary_t&) override { return fail("binary data stands where none belongs"); }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail("the header is not valid JSON at byte " + std::to_string(position));
  }

 private:
  enum class Place { kNone, kTop, kMetadata, kTensor, kShape, kOffsets };

  [[noreturn]] bool fail(const std::string& what) const {
    throw Error(origin_ + ": " + what + (tensor_.name.empty() ? "" : " (tensor '" + tensor_.name + "')"), kRemedy);
  }

  bool enter(Place place) {
    place_ = place;
    ++depth_;
    return true;
  }

  bool top_key(const std::string& name) {
    if (name.size() > kMaxNameBytes) return fail("a tensor's name is longer than 4096 bytes");
    if (!names_.insert(name).second) return fail("the name '" + name + "' occurs twice");
    in_metadata_ = name == "__metadata__";
    key_ = name;
    return true;
  }

  bool start_tensor() {
    tensor_ = TensorInfo{};
    tensor_.name = key_;
    offsets_.clear();
    fields_.clear();
    return enter(Place::kTensor);
  }

  void finish_tensor() {
    if (fields_.size() != 3) fail("dtype, shape or data_offsets is missing");
    if (offsets_.size() != 2) fail("data_offsets does not have two numbers");
    if (offsets_[1] < offsets_[0]) fail("data_offsets run backwards");
    tensor_.offset = offsets_[0];
    tensor_.bytes = offsets_[1] - offsets_[0];
    int64_t expected = size_of(tensor_.dtype);
    for (int64_t size : tensor_.shape) expected = checked_multiply(expected, size, origin_ + ": " + tensor_.name);
    if (expected != tensor_.bytes) {
      fail("shape and dtype need " + std::to_string(expected) + " bytes, data_offsets give " +
           std::to_string(tensor_.bytes));
    }
    tensors.push_back(std::move(tensor_));
    tensor_ = TensorInfo{};
  }

  std::string origin_, key_;
  Place place_ = Place::kNone;
  int depth_ = 0;
  bool in_metadata_ = false;
  TensorInfo tensor_;
  std::vector<int64_t> offsets_;
  std::set<std::string> fields_, names_;
};

// Sorts by offset and refuses gaps, overlaps and a data section of another size than the file's.
void check_layout(std::vector<TensorInfo>& tensors, int64_t data_bytes, const std::string& origin) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.bytes < b.bytes;
  });
  int64_t end = 0;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.offset != end) {
      throw Error(origin + ": tensor '" + tensor.name + "' starts at byte " + std::to_string(tensor.offset) +
                      " of the data, where byte " + std::to_string(end) + " is next: tensors overlap or leave a gap",
                  kRemedy);
    }
    end = checked_add(end, tensor.bytes, origin + ": offsets");
  }
  if (end != data_bytes) {
    throw Error(origin + ": the header describes " + std::to_string(end) + " bytes of data, the file holds " +
                    std::to_string(data_bytes),
                kRemedy);
  }
}

// Why the file cannot be one of safetensors: what it is, where its first bytes tell, else `what`.
[[noreturn]] void refuse_header(const MappedFile& file, const std::string& what, const char* remedy = kRemedy) {
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), std::min(file.size(), kFileStart));
  refuse_other_kind(file.path(), bytes, "safetensors");
  throw Error(file.path().string() + ": " + what, remedy);
}

int64_t header_length(const MappedFile& file) {
  if (file.size() < 8) refuse_header(file, "shorter than the 8 bytes of the header's length");
  uint64_t length = 0;
  for (int byte = 7; byte >= 0; --byte) length = length << 8 | std::to_integer<uint64_t>(file.data()[byte]);
  if (length > kMaxHeaderBytes && (file.size() == 8 || file.data()[8] != std::byte{'{'})) {
    refuse_header(file, "is no safetensors file: it begins with neither a header's length nor a header",
                  "name a safetensors file; if it was one, download or export it again");
  }
  if (length > kMaxHeaderBytes) {
    refuse_header(file,
                  "header of " + std::to_string(length) + " bytes (at most " + std::to_string(kMaxHeaderBytes) + ")");
  }
  if (length > file.size() - 8) {
    refuse_header(
        file, "truncated: header of " + std::to_string(length) + " bytes in a file of " + std::to_string(file.size()));
  }
  return static_cast<int64_t>(length);
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
  const std::string origin = path.string();
  const int64_t length = header_length(file_);
  const auto* text = reinterpret_cast<const char*>(file_.data()) + 8;
  if (length == 0 || text[0] != '{') refuse_header(file_, "the header does not start with '{'");

  HeaderReader reader(origin);
  nlohmann::json::sax_parse(text, text + length, &reader);
  data_start_ = 8 + length;
  tensors_ = std::move(reader.tensors);
  metadata_ = std::move(reader.metadata);
  check_layout(tensors_, static_cast<int64_t>(file_.size()) - data_start_, origin);
  for (size_t index = 0; index < tensors_.size(); ++index) by_name_[tensors_[index].name] = index;
}

const TensorInfo* SafetensorsFile::find(const std::string& name) const {
  auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

const std::byte* SafetensorsFile::data(const TensorInfo& tensor) const {
  return file_.data() + data_start_ + tensor.offset;
}

}  // namespace fathom::weights
