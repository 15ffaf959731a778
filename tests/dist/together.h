// Ranks that are threads of the test.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <thread>
#include <vector>

#include "dist/group.h"

namespace fathom::dist {

// Each of ranks 0 to size - 1 in a thread.
inline void together(int64_t size, const std::function<void(Group&)>& what,
                     std::chrono::seconds timeout = std::chrono::seconds(20)) {
  const int listening = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  ASSERT_EQ(::bind(listening, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(listening, SOMAXCONN), 0);
  ASSERT_EQ(::getsockname(listening, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const auto of_pipes = std::signal(SIGPIPE, SIG_DFL);  // joining changes it, for the tests after this one too
  std::vector<std::thread> ranks;
  for (int64_t rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      launch::Processes processes;
      processes.rank = processes.local_rank = rank;
      processes.size = processes.local_size = size;
      processes.port = ntohs(address.sin_port);
      if (rank == 0) processes.listening_socket = listening;
      what(*join(processes, timeout));
    });
  }
  for (std::thread& rank : ranks) rank.join();
  std::signal(SIGPIPE, of_pipes);
}

}  // namespace fathom::dist
