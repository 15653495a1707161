// module.cpp — the extension rehearse._rehearse: runs the program's commands in Python's process.
// Output goes as text to rehearse/__init__.py, which converts it to dicts, arrays and exceptions.
//
// The interpreter lock is released while a command runs; commands run one at a time. Python handles
// signals: its handler runs when a command checks for interrupts, and an exception in it ends the
// command.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>

#include "sim/base/program_files.h"
#include "sim/base/turn.h"
#include "sim/base/version.h"
#include "sim/command/common/interrupt.h"
#include "sim/command/common/session.h"

namespace py = pybind11;
namespace command = sim::command;

namespace {

pid_t owner = 0;                                 // a worker process has no interpreter
std::optional<py::error_already_set> raised_by;  // exception of a signal handler

bool signalled() {
  if (::getpid() != owner) return false;
  if (raised_by) return true;
  const py::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() == 0) return false;
  raised_by.emplace();
  return true;
}

// Runs a function and returns its reply; raises the exception of a signal handler.
command::Reply take_turn(const std::function<command::Reply()>& function) {
  command::Reply reply;
  std::optional<py::error_already_set> raised;
  if (sim::Turn::is_mine())
    throw std::runtime_error(
        "rehearse is at work: a signal's handler cannot ask it; ask where the call has ended");
  {
    const py::gil_scoped_release work;
    const sim::Turn alone;  // clusters and captured output belong to one command at a time
    owner = ::getpid();
    reply = function();
    signalled();
    const py::gil_scoped_acquire lock;
    raised.swap(raised_by);
  }
  if (raised) throw py::error_already_set(std::move(*raised));
  return reply;
}

// (exit code, stdout, stderr)
using Said = std::tuple<int, py::str, py::str>;

py::str text(const std::string& bytes) {
  PyObject* decoded =
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape");
  if (decoded == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(decoded);
}

Said said(const command::Reply& reply) {
  return {reply.code, text(reply.said.out), text(reply.said.err)};
}

Said ask(const std::string& name, const command::Arguments& arguments) {
  return said(take_turn([&] { return command::ask(name, arguments); }));
}

// Iterates over the points of a grid. REQUIRES: `open` was called and succeeded.
class Sweep {
 public:
  Sweep(std::string grid, std::vector<std::string> settings, std::string memory, bool peaks,
        std::optional<std::int64_t> jobs)
      : grid_(std::move(grid)),
        settings_(std::move(settings)),
        memory_(std::move(memory)),
        peaks_(peaks),
        jobs_(jobs) {}

  Said open() {
    return answer([this] {
      walk_ = std::make_unique<command::SweepWalk>(grid_, settings_, memory_, peaks_, jobs_);
      return "";
    });
  }

  // On success stdout is the next record, "" after the last one.
  Said next() {
    return answer([this] { return walk_->next([] { return !signalled(); }).value_or(""); });
  }

  std::size_t size() const { return walk_->size(); }

 private:
  static Said answer(const std::function<std::string()>& line) {
    return said(take_turn([&] {
      std::string out;
      command::Reply reply = command::listen([&] {
        out = line();
        return 0;
      });
      if (reply.code == 0) reply.said.out = out;
      return reply;
    }));
  }

  std::string grid_;
  std::vector<std::string> settings_;
  std::string memory_;
  bool peaks_;
  std::optional<std::int64_t> jobs_;
  std::unique_ptr<command::SweepWalk> walk_;
};

}  // namespace

PYBIND11_MODULE(_rehearse, module) {
  command::keep_freed_memory();
  command::leave_interrupts_to(signalled);
  module.attr("__version__") = sim::output::version_text;
  module.def("set_program_folder", &sim::set_program_folder);
  module.def("ask", &ask);
  py::class_<Sweep>(module, "Sweep")
      .def(py::init<std::string, std::vector<std::string>, std::string, bool,
                    std::optional<std::int64_t>>())
      .def("open", &Sweep::open)
      .def("next", &Sweep::next)
      .def("size", &Sweep::size);
}
