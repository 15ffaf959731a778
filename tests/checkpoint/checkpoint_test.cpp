// Checkpoints: what goes in comes out bit for bit, what is damaged is refused, and a kill at any call leaves only whole
// ones.
#include "checkpoint/checkpoint.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json_value.h"

extern "C" void fathom_kill_at(const char* text);  // kill_at.c
extern "C" long fathom_kill_count(const char* name);

namespace fathom::checkpoint {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
namespace fs = std::filesystem;

class CheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("fathom_checkpoint_" + std::to_string(::getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_ / "base");
    output_ = root_ / "run";
    files_.source = root_ / "base";
    put(root_ / "base/config.json", R"({"model_type": "llama", "torch_dtype": "bfloat16", "vocab_size": 5})");
    put(root_ / "base/tokenizer.model", "pieces");
  }
  void TearDown() override {
    fathom_kill_at(nullptr);
    fs::remove_all(root_);
  }

  static void put(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }
  static Snapshot snapshot(double value) {
    Snapshot result;
    result.parameters = {{"model.w", at::full({3, 5}, value, at::kFloat)},
                         {"model.n", at::full({3}, value + 1, at::kBFloat16)}};
    result.optimizer = {{"exp_avg.model.w", at::full({3, 5}, value + 2, at::kFloat)},
                        {"exp_avg_sq.model.w", at::full({5, 3}, value + 3, at::kFloat).t()},
                        {"step", at::scalar_tensor(value, at::kFloat)}};
    result.state = {{"global_step", value}, {"rate", 0.1}};
    return result;
  }
  static std::string hash_of(const Snapshot& snapshot) {
    std::string all;
    for (const NamedTensors* tensors : {&snapshot.parameters, &snapshot.optimizer}) {
      for (const auto& [name, tensor] : *tensors) {
        const at::Tensor whole = tensor.contiguous();
        all += name + hash_bytes(whole.data_ptr(), static_cast<size_t>(whole.nbytes()));
      }
    }
    return all;
  }
  fs::path save_step(int64_t step, int64_t limit = 0) {
    return save(output_, step, snapshot(static_cast<double>(step)), files_, limit);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(output_)) names.push_back(entry.path().filename().string());
    return names;
  }
  static std::string refusal(const fs::path& folder) {
    try {
      Checkpoint checkpoint(folder);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  fs::path root_, output_;
  ModelFiles files_;
};

TEST_F(CheckpointTest, GivesBackWhatWasSaved) {
  const Snapshot saved = snapshot(7);
  const fs::path folder = save(output_, 7, saved, files_, 0);
  EXPECT_EQ(folder, output_ / "checkpoint-7");
  EXPECT_THAT(names(), UnorderedElementsAre("checkpoint-7"));

  const Checkpoint checkpoint(folder);
  EXPECT_EQ(checkpoint.step(), 7);
  EXPECT_EQ(checkpoint.state(), saved.state);
  Snapshot loaded = snapshot(0);
  loaded.parameters[0].second.requires_grad_(true);
  const void* place = loaded.parameters[0].second.data_ptr();
  checkpoint.copy_into(loaded.parameters, loaded.optimizer);
  EXPECT_EQ(hash_of(loaded), hash_of(saved));
  EXPECT_EQ(loaded.parameters[0].second.data_ptr(), place);
  EXPECT_TRUE(loaded.parameters[0].second.is_leaf());
}

TEST_F(CheckpointTest, TheStateMayChangeOnceItWasRead) {
  const Snapshot saved = snapshot(7);
  const std::string expected = hash_of(saved);
  int calls = 0;
  save(output_, 7, saved, files_, 0, [&] {
    ++calls;
    for (const auto& [name, tensor] : saved.parameters) tensor.fill_(99);
    for (const auto& [name, tensor] : saved.optimizer) tensor.fill_(99);
  });
  EXPECT_EQ(calls, 1);
  Snapshot loaded = snapshot(0);
  Checkpoint(output_ / "checkpoint-7").copy_into(loaded.parameters, loaded.optimizer);
  EXPECT_EQ(hash_of(loaded), expected);
}

TEST_F(CheckpointTest, KeepsEveryBitOfOddNumbers) {
  Snapshot saved = snapshot(1);
  const at::Tensor odd = at::arange(0, 65536, at::kInt).to(at::kShort).view(at::kBFloat16);  // all BF16s, NaNs included
  saved.optimizer = {{"w", odd}};
  saved.parameters = {{"w", odd.where(odd.isfinite(), at::zeros_like(odd))}};
  save(output_, 1, saved, files_, 0);
  Snapshot loaded = snapshot(0);
  loaded.parameters = {{"w", at::zeros({65536}, at::kBFloat16)}};
  loaded.optimizer = {{"w", at::zeros({65536}, at::kBFloat16)}};
  Checkpoint(output_ / "checkpoint-1").copy_into(loaded.parameters, loaded.optimizer);
  EXPECT_EQ(hash_of(loaded), hash_of(saved));
}

TEST_F(CheckpointTest, KeepsNoWeightsThatAreNotFinite) {
  save_step(1);
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    for (const size_t parameter : {size_t{0}, size_t{1}}) {
      Snapshot broken = snapshot(2);
      broken.parameters[parameter].second.view(-1)[2] = bad;
      try {
        save(output_, 2, broken, files_, /*save_total_limit=*/1);
        ADD_FAILURE() << bad << " was saved";
      } catch (const Error& error) {
        EXPECT_THAT(error.what(),
                    HasSubstr("the weights of " + broken.parameters[parameter].first + " are not finite"));
      }
      EXPECT_THROW(write_model(output_, broken.parameters, files_), Error);
      EXPECT_EQ(refusal(output_ / "checkpoint-1"), "") << "the one before is not deleted for it";
      EXPECT_FALSE(fs::exists(output_ / "checkpoint-2"));
      EXPECT_FALSE(fs::exists(output_ / "model.safetensors"));
    }
  }
}

// Versions before wrote what the last update had left.
TEST_F(CheckpointTest, GoesOnFromTheNewestThatIsFinite) {
  save_step(1);
  const fs::path folder = save_step(2), weights = folder / "model.safetensors";
  std::string content = read_file(weights);
  const float bad = std::nanf("");
  std::memcpy(content.data() + content.size() - 3 * sizeof(uint16_t) - sizeof bad, &bad,
              sizeof bad);  // last of model.w
  put(weights, content);
  Json manifest = read_json(folder / "manifest.json");
  for (Json& file : manifest["files"]) {
    if (file["name"] == "model.safetensors") file["hash"] = hash_bytes(content.data(), content.size());
  }
  put(folder / "manifest.json", format_json(manifest));
  EXPECT_THAT(refusal(folder), HasSubstr("the weights of model.w are not finite"));
  ::testing::internal::CaptureStderr();
  const auto found = find_newest(output_);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("skipping checkpoint-2"));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step(), 1);
}

TEST_F(CheckpointTest, RefusesAnotherRunsTensors) {
  save_step(1);
  const Checkpoint checkpoint(output_ / "checkpoint-1");
  auto message = [&](const NamedTensors& parameters) -> std::string {
    try {
      checkpoint.copy_into(parameters, snapshot(0).optimizer);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  const at::Tensor w = at::zeros({3, 5}), n = at::zeros({3}, at::kBFloat16);
  EXPECT_EQ(message({{"model.w", w}, {"model.n", n}}), "");
  EXPECT_THAT(message({{"model.w", w}}), HasSubstr("'model.n' has no place"));
  EXPECT_THAT(message({{"model.w", w}, {"model.n", n}, {"model.x", n}}), HasSubstr("no tensor 'model.x'"));
  EXPECT_THAT(message({{"model.w", w.t()}, {"model.n", n}}), HasSubstr("another shape"));
  EXPECT_THAT(message({{"model.w", w}, {"model.n", n.to(at::kHalf)}}), HasSubstr("another shape or type"));
}

TEST_F(CheckpointTest, RefusesAnyDamage) {
  const fs::path folder = save_step(3);
  EXPECT_EQ(refusal(folder), "");
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string content = read_file(entry.path());
    for (size_t at : {size_t{0}, content.size() / 2, content.size() - 2}) {
      std::string changed = content;
      changed[at] ^= 1;
      put(entry.path(), changed);
      EXPECT_NE(refusal(folder), "") << entry.path() << " at " << at;
    }
    for (const size_t size : {content.size() / 2, content.size() - 1}) {
      put(entry.path(), content.substr(0, size));
      EXPECT_NE(refusal(folder), "") << entry.path() << " cut to " << size;
    }
    fs::remove(entry.path());
    EXPECT_NE(refusal(folder), "") << entry.path();
    put(entry.path(), content);
    EXPECT_EQ(refusal(folder), "");
  }
}

TEST_F(CheckpointTest, RefusesManifestsThatLie) {
  const fs::path folder = save_step(3);
  const Json sound = read_json(folder / "manifest.json");
  put(root_ / "run/outside", "x");
  auto with = [&](const std::function<void(Json&)>& change) {
    Json manifest = sound;
    change(manifest);
    put(folder / "manifest.json", format_json(manifest));
    return refusal(folder);
  };
  EXPECT_EQ(with([](Json&) {}), "");
  const auto with_file = [&](const std::string& name) {
    return with([&](Json& manifest) {
      manifest["files"].push_back({{"name", name}, {"bytes", 1}, {"hash", hash_bytes("x", 1)}});
    });
  };
  const std::string absolute = root_ / "run/outside";
  for (const char* name :
       {"../outside", "templates/../../outside", absolute.c_str(), "outside/", "./outside", "a/./b", ".", ""}) {
    EXPECT_THAT(with_file(name), HasSubstr("not the name of a file in it")) << name;
  }
  EXPECT_NE(with_file(std::string("outside\0x", 9)), "");
  EXPECT_THAT(with([](Json& manifest) { manifest["files"].push_back(Json(manifest["files"][0])); }),
              HasSubstr("twice"));
  EXPECT_THAT(with([](Json& manifest) { manifest["step"] = 4; }), HasSubstr("step 4"));
  EXPECT_THAT(with([](Json& manifest) { manifest["version"] = 3; }), HasSubstr("version 3"));
  EXPECT_THAT(with([](Json& manifest) { manifest["format"] = "other"; }), HasSubstr("manifest of a checkpoint"));
  EXPECT_THAT(with([](Json& manifest) { manifest["files"].clear(); }), HasSubstr("does not list"));
  EXPECT_NE(with([](Json& manifest) { manifest["files"] = 5; }), "");
  EXPECT_NE(with([](Json& manifest) { manifest["files"][0]["bytes"] = -1; }), "");
}

TEST_F(CheckpointTest, FindsTheNewestSoundOneAndSaysWhatItSkips) {
  EXPECT_FALSE(find_newest(output_));
  save_step(9);
  save_step(10);
  save_step(11);
  fs::create_directories(output_ / "checkpoint-100");  // written by a killed copy, say
  fs::create_directories(output_ / ".checkpoint-12.partial");
  put(output_ / "checkpoint-11/optimizer.safetensors", "short");
  ::testing::internal::CaptureStderr();
  const auto found = find_newest(output_);
  const std::string log = ::testing::internal::GetCapturedStderr();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step(), 10);
  EXPECT_THAT(log, HasSubstr("skipping checkpoint-100"));
  EXPECT_THAT(log, HasSubstr("manifest.json"));
  EXPECT_THAT(log, HasSubstr("skipping checkpoint-11"));
  EXPECT_THAT(log, HasSubstr("optimizer.safetensors"));
}

TEST_F(CheckpointTest, KeepsTheNewestUpToTheLimit) {
  for (int64_t step : {2, 4, 10, 20}) save_step(step);
  EXPECT_EQ(names().size(), 4u);
  save_step(30, 2);
  EXPECT_THAT(names(), UnorderedElementsAre("checkpoint-20", "checkpoint-30"));
  save_step(25, 1);  // resumed from 20: the one just saved stays, whatever its step
  EXPECT_THAT(names(), UnorderedElementsAre("checkpoint-25"));
}

TEST_F(CheckpointTest, ReplacesOneOfTheSameStepAndRemovesLeftovers) {
  save_step(5);
  fs::create_directories(output_ / ".checkpoint-3.partial/sub");
  fs::create_directories(output_ / ".checkpoint-4.deleted");
  save(output_, 5, snapshot(6), files_, 0);
  EXPECT_THAT(names(), UnorderedElementsAre("checkpoint-5"));
  EXPECT_EQ(Checkpoint(output_ / "checkpoint-5").state(), snapshot(6).state);
}

TEST_F(CheckpointTest, LeavesNothingBehindWhenWritingFails) {
  files_.source = root_ / "absent";
  EXPECT_THROW(save_step(1), Error);
  EXPECT_TRUE(names().empty());
}

TEST_F(CheckpointTest, AFullDiskLosesNothing) {
  int failures = 0;
  for (int64_t room = 0;; room += 61) {
    fs::remove_all(output_);
    save_step(1);
    fathom_kill_at(("full:" + std::to_string(room) + ":" + output_.string()).c_str());
    std::string message;
    try {
      save_step(2, 1);
    } catch (const Error& error) {
      message = error.what();
    }
    fathom_kill_at(nullptr);
    if (message.empty()) break;
    ++failures;
    EXPECT_THAT(message, HasSubstr("No space left on device"));
    EXPECT_THAT(message, HasSubstr(output_.string()));
    ASSERT_THAT(names(), UnorderedElementsAre("checkpoint-1")) << "with room for " << room << " bytes";
    EXPECT_EQ(refusal(output_ / "checkpoint-1"), "");
  }
  EXPECT_GT(failures, 20);
  EXPECT_THAT(names(), UnorderedElementsAre("checkpoint-2"));
}

TEST_F(CheckpointTest, RefusesBeforeItWritesWhatTheDiskCannotHold) {
  save_step(1);
  Snapshot large = snapshot(2);
  large.parameters.emplace_back("large", at::empty({1}).expand({int64_t{1} << 58}));
  try {
    save(output_, 2, large, files_, 1);
    FAIL() << "an exbibyte was written";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no room for checkpoint-2"));
  }
  EXPECT_THAT(names(), UnorderedElementsAre("checkpoint-1"));
}

// Runs `save` of step 2 in a child that is killed at the n-th call of an operation. Returns false once the child gets
// to its end.
bool killed_at(const char* operation, int number, const fs::path& folder, const std::function<void()>& save) {
  const std::string text = std::string(operation) + ":" + std::to_string(number) + ":" + folder.string();
  const pid_t child = ::fork();
  if (child == 0) {
    fathom_kill_at(text.c_str());
    save();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0) << text;
  return WIFSIGNALED(status);
}

TEST_F(CheckpointTest, SurvivesAKillAtEveryCall) {
  std::map<std::string, int> kills;
  for (const char* operation : {"write", "fsync", "rename", "unlink"}) {
    for (const bool same_step : {false, true}) {
      for (int number = 1;; ++number) {
        fs::remove_all(output_);
        save_step(1);
        const int64_t step = same_step ? 1 : 2;
        const bool killed = killed_at(operation, number, output_, [&] { save(output_, step, snapshot(2), files_, 1); });
        const auto found = find_newest(output_);
        ASSERT_TRUE(found) << operation << number;  // the old one or the new one, whole
        Snapshot loaded = snapshot(0);
        found->copy_into(loaded.parameters, loaded.optimizer);
        const auto value = found->state()["global_step"].get<double>();
        EXPECT_EQ(hash_of(loaded), hash_of(snapshot(value)));
        if (!killed) {
          EXPECT_EQ(value, 2);
          break;
        }
        ++kills[operation];
        save_step(3, 1);  // the next save works and cleans up
        EXPECT_THAT(names(), UnorderedElementsAre("checkpoint-3"));
      }
    }
  }
  EXPECT_GT(kills["write"], 10);
  EXPECT_GT(kills["fsync"], 10);
  EXPECT_GE(kills["rename"], 2);
  EXPECT_GE(kills["unlink"], 10);
}

}  // namespace
}  // namespace fathom::checkpoint
