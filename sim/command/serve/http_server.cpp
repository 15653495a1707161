#include "sim/command/serve/http_server.h"

#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <optional>
#include <set>
#include <utility>

namespace sim::command::web {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;

using Message = http::request<http::string_body>;

std::string field(const Message& message, std::string_view name) {
  const auto value = message[beast::string_view(name.data(), name.size())];
  return {value.data(), value.size()};
}

Request request_of(Message message) {
  Request request;
  request.method = std::string(message.method_string());
  request.target = std::string(message.target());
  request.host = field(message, "Host");
  request.origin = field(message, "Origin");
  request.fetch_site = field(message, "Sec-Fetch-Site");
  request.content_type = field(message, "Content-Type");
  request.authorization = field(message, "Authorization");
  request.hosts = static_cast<int>(message.count(http::field::host));
  request.body = std::move(message.body());
  return request;
}

http::response<http::string_body> message_of(Reply reply, bool keep, unsigned version) {
  http::response<http::string_body> message{static_cast<http::status>(reply.status), version};
  message.set(http::field::content_type, reply.type);
  message.set(http::field::cache_control, "no-store");
  message.set("X-Content-Type-Options", "nosniff");
  message.set("X-Frame-Options", "DENY");
  message.set("Referrer-Policy", "no-referrer");
  message.set("Cross-Origin-Resource-Policy", "same-origin");
  message.set("Cross-Origin-Opener-Policy", "same-origin");
  message.keep_alive(keep);
  message.body() = std::move(reply.body);
  message.prepare_payload();
  return message;
}

// The reply to a request that could not be read; std::nullopt: close without a reply.
std::optional<Reply> reply_of(beast::error_code error) {
  if (error == http::error::body_limit) return problem(413, "the body is too large");
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return problem(431, "the header is too large");
  if (error == beast::error::timeout) return problem(408, "the request took too long");
  const bool parse = error.category() == make_error_code(http::error::bad_method).category();
  if (error == http::error::end_of_stream || error == http::error::partial_message || !parse)
    return std::nullopt;
  return problem(400, "the request is no HTTP/1.1: " + error.message());
}

}  // namespace

class Session;

struct HttpServer::State {
  State(asio::io_context& context, HttpLimits all, Handler handle)
      : acceptor(context), pause(context), limits(all), handler(std::move(handle)) {}

  tcp::acceptor acceptor;
  asio::steady_timer pause;  // after a connection that could not be accepted
  HttpLimits limits;
  Handler handler;
  std::set<Session*> sessions;
  std::size_t snapshots = 0;  // that arrive now
};

// One connection; it lives as long as an operation on it is running.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, std::shared_ptr<HttpServer::State> server)
      : stream_(std::move(socket)), server_(std::move(server)) {
    beast::error_code ignored;  // a missing option only makes replies slower
    stream_.socket().set_option(tcp::no_delay(true), ignored);
    server_->sessions.insert(this);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    count_snapshot(false);
    server_->sessions.erase(this);
  }

  // Waits for the first byte of a request, then reads the rest in the time of a request.
  void read() {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(server_->limits.header_bytes));
    parser_->body_limit(server_->limits.snapshot_bytes);
    stream_.expires_after(first_ ? server_->limits.request : server_->limits.idle);
    if (buffer_.size() > 0) return read_whole();
    stream_.async_read_some(buffer_.prepare(first_read_bytes),
                            [self = shared_from_this()](beast::error_code error, std::size_t got) {
                              if (error) return;
                              self->buffer_.commit(got);
                              self->read_whole();
                            });
  }
  void close() {
    beast::error_code ignored;  // the connection ends in any case
    stream_.socket().close(ignored);
  }

 private:
  static constexpr std::size_t first_read_bytes = 4096;

  void read_whole() {
    first_ = false;
    stream_.expires_after(server_->limits.request);
    http::async_read_header(stream_, buffer_, *parser_,
                            [self = shared_from_this()](beast::error_code error, std::size_t) {
                              if (error) return self->have_read(error);
                              self->read_body();
                            });
  }

  // The limit of the body depends on the address.
  void read_body() {
    const HttpLimits& limits = server_->limits;
    const auto target = parser_->get().target();
    if (std::string_view(target.data(), target.size()) == snapshot_path) {
      if (server_->snapshots >= limits.snapshots)
        return write(problem(503, "other memory snapshots arrive now"), false, http_1_1);
      count_snapshot(true);
    } else {
      if (parser_->content_length().value_or(0) > limits.body_bytes)
        return have_read(http::error::body_limit);
      parser_->body_limit(limits.body_bytes);
    }
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](beast::error_code error, std::size_t) {
                       self->count_snapshot(false);
                       self->have_read(error);
                     });
  }

  void count_snapshot(bool arrives) {
    if (arrives == snapshot_) return;
    snapshot_ = arrives;
    if (arrives) {
      ++server_->snapshots;
    } else {
      --server_->snapshots;
    }
  }

  void have_read(beast::error_code error) {
    if (error) {
      std::optional<Reply> reply = reply_of(error);
      if (reply) write(*std::move(reply), false, http_1_1);
      return;
    }
    Message message = parser_->release();
    const bool keep = message.keep_alive();
    const unsigned version = message.version();
    stream_.expires_never();  // the limits of the job hold
    server_->handler(request_of(std::move(message)),
                     [self = shared_from_this(), keep, version](Reply reply) {
                       self->write(std::move(reply), keep, version);
                     });
  }

  void write(Reply reply, bool keep, unsigned version) {
    auto message = std::make_shared<http::response<http::string_body>>(
        message_of(std::move(reply), keep, version));
    stream_.expires_after(server_->limits.request);
    http::async_write(
        stream_, *message,
        [self = shared_from_this(), message, keep](beast::error_code error, std::size_t) {
          if (!error && keep) return self->read();
          beast::error_code ignored;  // the client may be gone
          self->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
        });
  }

  static constexpr unsigned http_1_1 = 11;
  bool first_ = true, snapshot_ = false;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::shared_ptr<HttpServer::State> server_;
};

// Accepts one connection after another until the acceptor is closed. Without a descriptor to spare
// it pauses; the connection waits in the kernel.
struct Accepting {
  static constexpr std::chrono::milliseconds pause{100};

  static void next(const std::shared_ptr<HttpServer::State>& state) {
    state->acceptor.async_accept([state](beast::error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted || !state->acceptor.is_open()) return;
      // A connection above the limit is closed: its socket goes out of scope.
      if (!error && state->sessions.size() < state->limits.connections)
        std::make_shared<Session>(std::move(socket), state)->read();
      if (!error) return next(state);
      state->pause.expires_after(pause);
      state->pause.async_wait([state](beast::error_code ended) {
        if (!ended && state->acceptor.is_open()) next(state);
      });
    });
  }
};

HttpServer::HttpServer(asio::io_context& context, const std::string& address, int port,
                       HttpLimits limits, Handler handler)
    : state_(std::make_shared<State>(context, limits, std::move(handler))) {
  const tcp::endpoint endpoint(asio::ip::make_address(address), static_cast<unsigned short>(port));
  state_->acceptor.open(endpoint.protocol());
  state_->acceptor.set_option(tcp::acceptor::reuse_address(true));
  state_->acceptor.bind(endpoint);
  state_->acceptor.listen();
  Accepting::next(state_);
}

HttpServer::~HttpServer() {
  close();
}

int HttpServer::port() const {
  return state_->acceptor.local_endpoint().port();
}

void HttpServer::close() {
  beast::error_code ignored;  // closing twice is no problem
  state_->acceptor.close(ignored);
  state_->pause.cancel();
  for (Session* session : state_->sessions) session->close();
}

}  // namespace sim::command::web
