// Every file that can change the tokens changes the key under which they are kept.
#include "schedule/tokens_identity.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <set>

namespace fathom::schedule {
namespace {

namespace fs = std::filesystem;

class TokensIdentity : public ::testing::Test {
 protected:
  ~TokensIdentity() override { fs::remove_all(folder_); }

  void put(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  std::string identity(const std::string& date = "2026-11-22") const { return tokens_identity(folder_, date); }

  const fs::path folder_ = fs::temp_directory_path() / ("fathom-identity-" + std::to_string(getpid()));
};

TEST_F(TokensIdentity, ChangesWithEveryFileThatIsReadForTokens) {
  std::set<std::string> seen = {identity()};
  for (const char* name :
       {"tokenizer.model", "spiece.model", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
        "added_tokens.json", "chat_template.jinja", "additional_chat_templates/tool_use.jinja"}) {
    for (const char* text : {"a", "b"}) {
      put(name, text);
      EXPECT_TRUE(seen.insert(identity()).second) << name;
    }
  }
  put("additional_chat_templates/rag.jinja", "which no conversation is written by");
  put("README.md", "neither");
  EXPECT_TRUE(seen.contains(identity()));
}

TEST_F(TokensIdentity, ChangesWithTheDateWhereATemplateMayWriteIt) {
  put("chat_template.jinja", "{{ messages }}");
  EXPECT_EQ(identity("2026-11-22"), identity("2026-11-23"));
  put("additional_chat_templates/tool_use.jinja", "{{ strftime_now('%d') }}");
  EXPECT_NE(identity("2026-11-22"), identity("2026-11-23"));
}

}  // namespace
}  // namespace fathom::schedule
