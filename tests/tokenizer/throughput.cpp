// Encodes a file of documents again and again, for scripts/campaigns/benchmark_tokenizer: a line out for each line in.
// usage: tokenizer_throughput FOLDER DOCUMENTS IDS   DOCUMENTS: texts with a zero byte between them; the ids go to IDS,
// 32 bits each
#include <ctime>
#include <fstream>
#include <iostream>

#include "base/file.h"
#include "tokenizer/tokenizer.h"

namespace {

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> documents;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\0', at), text.size());
    documents.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return documents;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) return 2;
  const double start = cpu_seconds();
  const auto tokenizer = fathom::tokenizer::Tokenizer::open(arguments[1]);
  std::cout << cpu_seconds() - start << std::endl;
  const std::string text = fathom::read_file(arguments[2]);
  const std::vector<std::string_view> documents = split(text);
  std::vector<std::vector<int32_t>> ids(documents.size());
  std::string line;
  while (std::getline(std::cin, line)) {
    const double before = cpu_seconds();
    for (size_t i = 0; i < documents.size(); ++i) ids[i] = tokenizer->encode(documents[i]);
    std::cout << cpu_seconds() - before << std::endl;
  }
  std::ofstream file(arguments[3], std::ios::binary);
  for (const auto& document : ids) {
    file.write(reinterpret_cast<const char*>(document.data()),
               static_cast<std::streamsize>(document.size() * sizeof(int32_t)));
  }
  return file.good() ? 0 : 1;
}
