#include "apps/lab/runs/wire.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <thread>

#include "gnomon/error.h"
#include "src/core/json.h"

namespace gnomon::lab {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t prefix_bytes = 16;
constexpr char magic[3] = {'G', 'L', 'B'};

void put(unsigned char* to, std::uint64_t number, int bytes) {
  for (int i = 0; i < bytes; ++i) to[i] = static_cast<unsigned char>(number >> (8 * i));
}
std::uint64_t number_at(const unsigned char* from, int bytes) {
  std::uint64_t number = 0;
  for (int i = bytes; i-- > 0;) number = number << 8 | from[i];
  return number;
}

void wait_for(int file, short event, Clock::time_point deadline) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) throw ConnectionLost("no answer in time");
    pollfd poll_file{file, event, 0};
    const int ready = poll(&poll_file, 1, static_cast<int>(std::min<long>(left, 60'000)));
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) throw ConnectionLost(std::strerror(errno));
  }
}

void send_all(int file, const void* data, std::size_t size, Clock::time_point deadline) {
  const char* from = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t sent = ::send(file, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      from += sent;
      size -= static_cast<std::size_t>(sent);
    } else if (errno == EAGAIN || errno == EINTR) {
      wait_for(file, POLLOUT, deadline);
    } else {
      throw ConnectionLost(std::strerror(errno));
    }
  }
}

void receive_all(int file, void* data, std::size_t size, Clock::time_point deadline) {
  char* to = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = recv(file, to, size, MSG_DONTWAIT);
    if (got > 0) {
      to += got;
      size -= static_cast<std::size_t>(got);
    } else if (got == 0) {
      throw ConnectionLost("closed");
    } else if (errno == EAGAIN || errno == EINTR) {
      wait_for(file, POLLIN, deadline);
    } else {
      throw ConnectionLost(std::strerror(errno));
    }
  }
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

// Empty with the reason in `error` if there is none.
Addresses find_addresses(const Address& address, int flags, std::string& error) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  const int code = getaddrinfo(address.host.empty() ? nullptr : address.host.c_str(),
                               std::to_string(address.port).c_str(), &hints, &list);
  if (code != 0) error = gai_strerror(code);
  return Addresses(code == 0 ? list : nullptr);
}

// The system may give a socket the port that it connects to on this machine, if nothing listens
// there.
bool is_connected_to_itself(int file) {
  sockaddr_storage own{}, other{};
  socklen_t own_size = sizeof own, other_size = sizeof other;
  return getsockname(file, reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
         getpeername(file, reinterpret_cast<sockaddr*>(&other), &other_size) == 0 &&
         own_size == other_size && std::memcmp(&own, &other, own_size) == 0;
}

std::uint16_t port_of(int file) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  getsockname(file, reinterpret_cast<sockaddr*>(&bound), &size);
  // The port has the same place in addresses of both families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
}

}  // namespace

Connection::Connection(int file) : file_(file) {
  const int on = 1;
  setsockopt(file_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(file_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  // A machine that has stopped is noticed after 60 s, also while nothing is sent.
  const int idle = 30, interval = 10, probes = 3;
  setsockopt(file_, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(file_, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(file_, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

Connection::~Connection() { close(file_); }

void Connection::end() { shutdown(file_, SHUT_RDWR); }

void Connection::send(const Message& message, std::chrono::milliseconds time) {
  const auto deadline = Clock::now() + time;
  const std::string head =
      message.head.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::array<unsigned char, prefix_bytes> prefix{};
  std::memcpy(prefix.data(), magic, sizeof magic);
  prefix[3] = protocol_version;
  put(&prefix[4], head.size(), 4);
  put(&prefix[8], message.data.size(), 8);
  std::string first(prefix.begin(), prefix.end());
  first += head;
  send_all(file_, first.data(), first.size(), deadline);
  send_all(file_, message.data.data(), message.data.size(), deadline);
}

Message Connection::receive(const MessageLimits& limits, std::chrono::milliseconds time) {
  const auto deadline = Clock::now() + time;
  std::array<unsigned char, prefix_bytes> prefix{};
  receive_all(file_, prefix.data(), prefix.size(), deadline);
  if (std::memcmp(prefix.data(), magic, sizeof magic) != 0)
    throw ConnectionLost("not a message of the lab");
  if (prefix[3] != protocol_version)
    throw OtherProtocol(
        fmt::format("protocol version {} instead of {}", protocol_version, prefix[3]));
  const std::uint64_t head_bytes = number_at(&prefix[4], 4),
                      data_bytes = number_at(&prefix[8], 8);
  if (head_bytes > limits.head || data_bytes > limits.data)
    throw ConnectionLost("a message that is too long");
  Message message;
  std::string head(head_bytes, '\0');
  receive_all(file_, head.data(), head.size(), deadline);
  try {
    message.head = internal::parse_json<Json>(head, "lab", "the message");
  } catch (const std::invalid_argument& error) {
    throw ConnectionLost(error.what());
  }
  if (!message.head.is_object()) throw ConnectionLost("a message without JSON");
  message.data.resize(data_bytes);
  receive_all(file_, message.data.data(), message.data.size(), deadline);
  return message;
}

Address parse_address(const std::string& option, const std::string& text, bool host_required) {
  const std::size_t colon = text.rfind(':');
  Address address;
  std::string port = text;
  if (colon != std::string::npos) {
    address.host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']')
      address.host = address.host.substr(1, address.host.size() - 2);
  }
  int number = -1;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  const bool is_port = error == std::errc() && end == port.data() + port.size() &&
                       number >= (host_required ? 1 : 0) && number <= 65535;
  if (!is_port || (host_required && address.host.empty()))
    refuse("lab", option + (host_required ? " must be HOST:PORT" : " must be [HOST:]PORT"),
           text.empty() ? "nothing" : text);
  address.port = static_cast<std::uint16_t>(number);
  return address;
}

Listener::Listener(const Address& address) {
  std::string error;
  const Addresses list = find_addresses(address, AI_PASSIVE, error);
  // The IPv6 address of all interfaces accepts IPv4, too.
  for (const int family : {AF_INET6, AF_INET})
    for (const addrinfo* one = list.get(); one && file_ < 0; one = one->ai_next) {
      if (one->ai_family != family) continue;
      const int file = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const int on = 1, off = 0;
      setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      if (family == AF_INET6) setsockopt(file, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
      if (file >= 0 && bind(file, one->ai_addr, one->ai_addrlen) == 0 &&
          listen(file, SOMAXCONN) == 0) {
        file_ = file;
      } else {
        error = std::strerror(errno);
        if (file >= 0) close(file);
      }
    }
  if (file_ < 0)
    refuse("lab", fmt::format("port {} must be free for rank 0", address.port), error);
  port_ = port_of(file_);
}

Listener::~Listener() { close(file_); }

int Listener::accept(std::chrono::milliseconds time) {
  pollfd poll_file{file_, POLLIN, 0};
  if (poll(&poll_file, 1, static_cast<int>(time.count())) <= 0) return -1;
  const int file = accept4(file_, nullptr, nullptr, SOCK_CLOEXEC);
  // Sleeps, e.g. if too many files are open: no busy loop until some are closed.
  if (file < 0) std::this_thread::sleep_for(time);
  return file;
}

int connect_to(const Address& address, std::chrono::milliseconds patience,
               const std::function<void()>& waiting) {
  const auto deadline = Clock::now() + patience;
  constexpr std::chrono::milliseconds longest_pause{500};
  std::chrono::milliseconds pause{50};
  for (bool first = true;; first = false) {
    std::string error;
    const Addresses list = find_addresses(address, 0, error);
    for (const addrinfo* one = list.get(); one; one = one->ai_next) {
      const int file = socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const bool connected = file >= 0 && ::connect(file, one->ai_addr, one->ai_addrlen) == 0;
      if (connected && !is_connected_to_itself(file)) return file;
      error = std::strerror(connected ? ECONNREFUSED : errno);
      if (file >= 0) close(file);
    }
    if (Clock::now() >= deadline)
      refuse("lab", fmt::format("rank 0 must listen at {}:{}", address.host, address.port),
             error);
    if (first) waiting();
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, longest_pause);
  }
}

}  // namespace gnomon::lab
