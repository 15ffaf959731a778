// Several writers, threads here, make the file of one: wherever their shares are cut, of matrices that lie in files the
// other way round too. What processes exchange is tested where they are processes (tests/app/processes_test.cpp).
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cmath>
#include <thread>

#include "base/block_hash.h"
#include "base/error.h"
#include "base/file.h"
#include "checkpoint/named_tensors.h"
#include "weights/shared_safetensors.h"

namespace fathom::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// One who has [first, end) of the bytes of every tensor, in 64ths of these.
class Keeper final : public model::UnitKeeper {
 public:
  Keeper(int64_t first, int64_t end) : first_(first), end_(end) {}
  void before(int64_t /*unit*/) override {}
  void after(int64_t /*unit*/, const at::Tensor& /*made*/) override {}
  void idle_pass() override {}
  void open(const at::Tensor& /*parameter*/) override {}
  void close() override {}
  void fill(const at::Tensor& /*parameter*/, const at::Tensor& /*from*/) override {}
  std::vector<Kept> kept(const at::Tensor& parameter) const override {
    const auto numbers = parameter.numel(), size = static_cast<int64_t>(parameter.element_size());
    const int64_t first = numbers * first_ / 64 * size, end = numbers * end_ / 64 * size;
    if (first == end) return {};
    const at::Tensor memory = at::from_blob(parameter.data_ptr(), {numbers * size}, at::kByte);
    return {{first, memory.narrow(0, first, end - first)}};
  }

 private:
  int64_t first_, end_;
};

class Thread final : public weights::Writers {
 public:
  struct All {
    explicit All(size_t count) : texts(count), barrier(static_cast<std::ptrdiff_t>(count)) {}
    std::vector<std::string> texts;
    std::barrier<> barrier;
  };
  Thread(All& all, size_t rank, bool has_parts) : all_(all), rank_(rank), has_parts_(has_parts) {}
  bool is_first() const override { return rank_ == 0; }
  bool has_parts() const override { return has_parts_; }
  std::vector<std::string> gather(const std::string& text) override {
    all_.texts[rank_] = text;
    all_.barrier.arrive_and_wait();
    std::vector<std::string> texts = all_.texts;
    all_.barrier.arrive_and_wait();
    return texts;
  }
  std::vector<std::string> gather_to_first(const std::string& text) override {
    const std::vector<std::string> texts = gather(text);
    return is_first() ? texts : std::vector<std::string>();
  }

 private:
  All& all_;
  size_t rank_;
  bool has_parts_;
};

class WriteTogether : public ::testing::Test {
 protected:
  fs::path folder_ = fs::temp_directory_path() / ("fathom_together_" + std::to_string(::getpid()));
  NamedTensors tensors_;

  void SetUp() override {
    fs::create_directories(folder_);
    at::manual_seed(3);
    tensors_.emplace_back("a", at::rand({3000, 1500}));
    tensors_.emplace_back("b.turned", at::rand({1001, 701}).t());
    tensors_.emplace_back("c", at::rand({7}));
    tensors_.emplace_back("d.turned", at::rand({2, 3}).t());
    tensors_.emplace_back("e", at::randint(0, 255, {5000}, at::kByte));
    tensors_.emplace_back("f", at::rand({800, 900}).to(at::kBFloat16));
    tensors_.emplace_back("g.turned", at::rand({300, 200}).to(at::kBFloat16).t());
    tensors_.emplace_back("h", at::rand({0, 4}));
    tensors_.emplace_back("i.turned", at::rand({5, 70, 31}).transpose(1, 2));
  }
  void TearDown() override { fs::remove_all(folder_); }

  // What each writer threw, where one has. cuts: in 64ths. idle: writers besides, that have nothing of their own.
  std::vector<std::string> write(const std::vector<int64_t>& cuts, size_t idle, weights::FileRecord& record) {
    const size_t writing = cuts.size() - 1, count = writing + idle;
    Thread::All all(count);
    std::vector<std::string> failures(count);
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < count; ++rank) {
      threads.emplace_back([&, rank] {
        Keeper keeper(rank < writing ? cuts[rank] : 0, rank < writing ? cuts[rank + 1] : 0);
        NamedTensors shares = tensors_;
        shares.units = &keeper;
        Thread writers(all, rank, rank < writing);
        try {
          const auto own = weights::write_together(folder_ / "together", tensor_sources(shares, "model."),
                                                   weights::Numbers::kFinite, writers);
          if (rank == 0) record = own;
        } catch (const Error& error) {
          failures[rank] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return failures;
  }
};

TEST_F(WriteTogether, MakesTheFileOfOne) {
  const std::string hash =
      weights::write_safetensors(folder_ / "alone", tensor_sources(tensors_, "model."), weights::Numbers::kFinite);
  const std::string expected = read_file(folder_ / "alone", size_t{1} << 30);
  ASSERT_GT(count_blocks(std::ssize(expected)), 2);
  for (const auto& [cuts, idle] : {std::pair{std::vector<int64_t>{0, 64}, 0},
                                   {{0, 32, 64}, 0},
                                   {{0, 1, 64}, 1},
                                   {{0, 20, 41, 64}, 3},
                                   {{0, 64, 64}, 0},
                                   {{0, 7, 20, 33, 63, 64}, 0}}) {
    weights::FileRecord record;
    EXPECT_THAT(write(cuts, static_cast<size_t>(idle), record), ::testing::Each(""));
    EXPECT_TRUE(read_file(folder_ / "together", size_t{1} << 30) == expected);
    EXPECT_EQ(record.hash, hash);
    EXPECT_EQ(record.bytes, std::ssize(expected));
    EXPECT_EQ(record.name, "together");
  }
}

TEST_F(WriteTogether, EndsWhereANumberIsNotFinite) {
  tensors_[1].second.index_put_({700, 1000}, std::nanf(""));
  weights::FileRecord record;
  const std::vector<std::string> failures = write({0, 32, 64}, 0, record);
  EXPECT_THAT(failures, ::testing::Each("rank 1: the weights of model.b.turned are not finite, and are not kept"));
  EXPECT_EQ(record.hash, "");
}

// A machine that has another folder under the name.
TEST_F(WriteTogether, RefusesAFileThatIsNotThere) {
  Thread::All all(1);
  class NotFirst final : public weights::Writers {
    bool is_first() const override { return false; }
    bool has_parts() const override { return true; }
    std::vector<std::string> gather(const std::string& text) override { return {"", text}; }
    std::vector<std::string> gather_to_first(const std::string& /*text*/) override { return {}; }
  } writers;
  Keeper keeper(0, 64);
  tensors_.units = &keeper;
  try {
    weights::write_together(folder_ / "absent", tensor_sources(tensors_), weights::Numbers::kAny, writers);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("does not see"));
    EXPECT_THAT(error.what(), HasSubstr("all machines of the run share"));
  }
}

}  // namespace
}  // namespace fathom::checkpoint
