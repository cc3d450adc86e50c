// Messages between rank 0 and its workers over TCP. Every operation has a deadline.
//
//   bytes 0 to 3     "GLB" and the protocol version
//   bytes 4 to 7     size of the head, uint32, little endian
//   bytes 8 to 15    size of the data, uint64, little endian
//   head             JSON
//   data             bytes of a file
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

#include "apps/lab/runs/options.h"

namespace gnomon::lab {

constexpr std::uint8_t protocol_version = 1;

// The connection is closed, does not answer in time, or its bytes are not a message.
class ConnectionLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A message with another protocol version.
class OtherProtocol : public ConnectionLost {
 public:
  using ConnectionLost::ConnectionLost;
};

struct Message {
  Json head = Json::object();
  std::string data = {};
};
struct MessageLimits {
  std::uint64_t head, data;  // bytes
};
// Limits of the first message, before the sender is known.
constexpr MessageLimits hello_limits{4 << 10, 0};
// The data of a message: a part of a file. Small, so that heartbeats are not delayed.
constexpr std::uint64_t chunk_bytes = 1 << 20;
constexpr MessageLimits message_limits{1 << 20, chunk_bytes};

// A connected socket.
class Connection {
 public:
  explicit Connection(int file);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Throw ConnectionLost.
  void send(const Message& message, std::chrono::milliseconds time);
  Message receive(const MessageLimits& limits, std::chrono::milliseconds time);

  // Ends both directions. May be called from another thread.
  void end();

 private:
  const int file_;
};

// "host:29500", "[::1]:29500" or, if `host_required` is false, "29500". Throws
// std::invalid_argument.
Address parse_address(const std::string& option, const std::string& text, bool host_required);

// A socket that listens. Port 0: the system chooses one.
class Listener {
 public:
  // An empty host: all interfaces. Throws std::invalid_argument.
  explicit Listener(const Address& address);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  std::uint16_t port() const noexcept { return port_; }
  // The file of a new connection, or -1 if none arrives in `time`.
  int accept(std::chrono::milliseconds time);

 private:
  int file_ = -1;
  std::uint16_t port_ = 0;
};

// Connects. While nothing listens there, tries again for `patience`. Calls `waiting` before the
// second attempt. Throws std::invalid_argument.
int connect_to(const Address& address, std::chrono::milliseconds patience,
               const std::function<void()>& waiting);

}  // namespace gnomon::lab
