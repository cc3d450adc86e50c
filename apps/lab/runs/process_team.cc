#include "apps/lab/runs/process_team.h"

#include <netdb.h>
#include <sys/socket.h>
#include <torch/version.h>
#include <unistd.h>

#include "apps/lab/data/words.h"
#include "gnomon/error.h"

// The wheels of torch 2 contain Gloo without its headers.
#if TORCH_VERSION_MAJOR == 1 && defined(USE_C10D_GLOO) && __has_include(<gloo/algorithm.h>)
#define GNOMON_LAB_GLOO 1
#include <ATen/ATen.h>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#else
#define GNOMON_LAB_GLOO 0
#endif

namespace gnomon::lab {

std::string address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "9", &hints, &found) != 0)
    refuse("lab", "a host must have an address", host);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, freeaddrinfo);
  std::string address;
  for (const addrinfo* one = found; one && address.empty(); one = one->ai_next) {
    const int socket_fd = socket(one->ai_family, SOCK_DGRAM, 0);
    if (socket_fd < 0) continue;
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    char text[NI_MAXHOST];
    // A datagram socket only looks up the route.
    if (connect(socket_fd, one->ai_addr, one->ai_addrlen) == 0 &&
        getsockname(socket_fd, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
        getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text, nullptr, 0,
                    NI_NUMERICHOST) == 0)
      address = text;
    close(socket_fd);
  }
  if (address.empty()) refuse("lab", "there must be a route to a host", host);
  return address;
}

#if GNOMON_LAB_GLOO

namespace {

class ProcessTeam final : public Team {
 public:
  ProcessTeam(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
              const std::string& address, std::chrono::milliseconds timeout)
      : Team(rank, size) {
    const auto options = c10d::ProcessGroupGloo::Options::create(timeout);
    options->threads = 1;
    try {
      options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(address));
    } catch (const std::exception& error) {
      refuse("lab", "the address of a member must be of its machine", address);
    }
    store->setTimeout(timeout);
    group_ = guarded([&] {
      return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
    });
  }

  at::Tensor broadcast(const at::Tensor& tensor) override {
    std::vector<at::Tensor> all{tensor.clone()};
    guarded([&] { return group_->broadcast(all)->wait(); });
    return all[0];
  }
  // fail() does nothing: the connections end with the process or with this object, and the
  // others notice that.

 protected:
  std::vector<at::Tensor> exchange_rows(const at::Tensor& part) override {
    at::Tensor own = part, rows = at::empty_like(part);
    std::vector<std::int64_t> equal;  // the same number of rows for every member
    guarded([&] { return group_->alltoall_base(rows, own, equal, equal)->wait(); });
    return rows.unbind(0);
  }
  std::vector<at::Tensor> gather(const at::Tensor& part) override {
    std::vector<at::Tensor> own{part.contiguous()};
    std::vector<std::vector<at::Tensor>> all(1);
    for (int i = 0; i < size(); ++i) all[0].push_back(at::empty_like(own[0]));
    guarded([&] { return group_->allgather(all, own)->wait(); });
    return all[0];
  }

 private:
  template <typename Call>
  auto guarded(Call&& call) -> decltype(call()) {
    try {
      return call();
    } catch (const std::exception& error) {
      throw TeamError(fmt::format("[lab] the team of workers failed (rank {} of {}), got: {}",
                                  rank(), size(), first_line(error.what())));
    }
  }

  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

}  // namespace

std::unique_ptr<Team> process_team(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                   int size, const std::string& address,
                                   std::chrono::milliseconds timeout) {
  return std::make_unique<ProcessTeam>(store, rank, size, address, timeout);
}

#else

std::unique_ptr<Team> process_team(const c10::intrusive_ptr<c10d::Store>&, int, int,
                                   const std::string&, std::chrono::milliseconds) {
  refuse("lab", "a team of processes requires LibTorch 1.13 and libgloo-dev", TORCH_VERSION);
}

#endif

}  // namespace gnomon::lab
