// A team of processes, also on several machines: PyTorch's c10d with Gloo over TCP.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>
#include <string>

#include "apps/lab/runs/team.h"

namespace gnomon::lab {

// Connects to the other members through the store, in which they exchange their addresses. The
// keys of the store are those of one team: c10d::PrefixStore makes them so. `address`: the IP
// address or the name of this machine that the other members reach. `timeout`: for the
// connection and for each call of Team.
//
// Throws TeamError if the members do not meet before the timeout. Throws std::invalid_argument
// if the address is not of this machine, or if the lab was built without Gloo: LibTorch 1.13
// and Debian's libgloo-dev are required.
std::unique_ptr<Team> process_team(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                   int size, const std::string& address,
                                   std::chrono::milliseconds timeout = Team::default_timeout);

// Returns the IP address of this machine on the route to a host, for process_team. Sends
// nothing. Throws std::invalid_argument if the host is unknown or there is no route.
std::string address_towards(const std::string& host);

}  // namespace gnomon::lab
