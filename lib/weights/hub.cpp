// The layout of huggingface_hub's cache: models--org--name/refs/main holds a commit, snapshots/<commit> the files.
#include "weights/hub.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/file.h"

namespace fathom::weights {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestPart = 96;  // of a name on the hub

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path with_home(const std::string& path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  return fs::path(variable("HOME")) / path.substr(std::min<size_t>(2, path.size()));
}

// huggingface_hub/constants.py.
fs::path cache_folder() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string value = variable(name); !value.empty()) return with_home(value);
  }
  if (const std::string home = variable("HF_HOME"); !home.empty()) return with_home(home) / "hub";
  const std::string cache = variable("XDG_CACHE_HOME");
  return with_home(cache.empty() ? "~/.cache" : cache) / "huggingface" / "hub";
}

bool is_part_of_name(const std::string& part) {
  if (part.empty() || part.size() > kLongestPart || part.front() == '.' || part.front() == '-') return false;
  if (part.find("..") != std::string::npos || part.find("--") != std::string::npos) return false;
  return std::all_of(part.begin(), part.end(), [](unsigned char c) {
    return c < 128 && (std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.');
  });
}

// "models--org--name"; empty for what cannot be a name on the hub.
std::string folder_name(const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == std::string::npos) return is_part_of_name(name) ? "models--" + name : "";
  const std::string owner = name.substr(0, slash), rest = name.substr(slash + 1);
  return is_part_of_name(owner) && is_part_of_name(rest) ? "models--" + owner + "--" + rest : "";
}

bool is_commit(const std::string& text) {
  return !text.empty() && text.size() <= 64 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return c < 128 && std::isalnum(c) != 0; });
}

}  // namespace

bool is_hub_name(const std::string& name) {
  return name.find('/') != std::string::npos && !folder_name(name).empty() && !name.ends_with(".json");
}

fs::path find_model(const fs::path& name_or_path) {
  std::error_code ignored;
  if (fs::exists(name_or_path, ignored)) return name_or_path;
  const std::string name = name_or_path.string(), folder = folder_name(name);
  if (folder.empty() || name.ends_with(".json")) return name_or_path;
  const fs::path cached = cache_folder() / folder, branch = cached / "refs" / "main";
  const std::string remedy = (is_hub_name(name) ? "download it with `hf download " + name +
                                                      "` (for a plan config.json alone will do: `hf download " + name +
                                                      " config.json`), or give the path of a model folder"
                                                : "give the path of a model folder, or org/name as on the hub") +
                             std::string("; `fathom list models` names the shapes that are known");
  if (!fs::exists(branch, ignored)) {
    throw Error("'" + name + "' is neither a folder nor in the cache of the Hugging Face hub: looked for " +
                    fs::absolute(name_or_path).string() + " and " + cached.string(),
                remedy);
  }
  std::string commit = read_file(branch);
  while (!commit.empty() && (commit.back() == '\n' || commit.back() == '\r')) commit.pop_back();
  if (!is_commit(commit)) throw Error(branch.string() + ": expected the name of a commit", remedy);
  fs::path snapshot = cached / "snapshots" / commit;
  if (!fs::is_directory(snapshot, ignored)) {
    throw Error("'" + name + "' is not whole in the cache of the Hugging Face hub: there is no " + snapshot.string(),
                remedy);
  }
  return snapshot;
}

std::string lasting_name(const fs::path& name_or_path) {
  std::error_code ignored;
  if (!fs::exists(name_or_path, ignored) && is_hub_name(name_or_path.string())) return name_or_path.string();
  return fs::weakly_canonical(fs::absolute(name_or_path)).string();
}

}  // namespace fathom::weights
