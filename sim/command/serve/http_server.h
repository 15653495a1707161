// http_server.h — HTTP/1.1 on one thread (Boost.Beast): connections, limits of sizes and times.
// `rehearse serve` starts one.
//
// A slow or silent client holds a connection but no thread. Each limit below closes it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "sim/command/serve/http.h"

namespace sim::command::web {

struct HttpLimits {
  std::size_t header_bytes = 16'384;
  std::size_t body_bytes = 4 << 20;        // a launch script, a config.json, the end of a log
  std::size_t snapshot_bytes = 128 << 20;  // a memory snapshot
  std::size_t snapshots = 2;               // that arrive at a time
  std::size_t connections = 256;
  std::chrono::seconds request{10};  // from the first byte to the last of a request
  std::chrono::seconds idle{60};     // between two requests
};

// Gets a request and answers it now or later, once.
using Handler = std::function<void(Request, Respond)>;

class HttpServer {
 public:
  // Listens at once. Throws boost::system::system_error if the port is taken or not allowed.
  HttpServer(boost::asio::io_context& context, const std::string& address, int port,
             HttpLimits limits, Handler handler);
  ~HttpServer();

  int port() const;
  // Accepts no further connections and closes those that are open.
  void close();

  struct State;  // shared with the connections

 private:
  std::shared_ptr<State> state_;
};

}  // namespace sim::command::web
