// ranks.cpp — the processes of an MPI job (ranks.h), in a shared library. It is loaded only under
// mpirun and srun, since an MPI library takes longer to load than most commands run.
#include "sim/study/sweep/ranks.h"

#include <mpi.h>

namespace {

class MpiRanks final : public sim::study::Ranks {
 public:
  MpiRanks() {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  MpiRanks(const MpiRanks&) = delete;
  MpiRanks& operator=(const MpiRanks&) = delete;
  ~MpiRanks() override { MPI_Finalize(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void send(int to, const std::string& bytes) override {
    MPI_Send(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, tag, MPI_COMM_WORLD);
  }

  std::optional<sim::study::RankMessage> receive() override {
    int there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &there, &status);
    if (there == 0) return std::nullopt;
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    sim::study::RankMessage message{status.MPI_SOURCE,
                                    std::string(static_cast<std::size_t>(bytes), '\0')};
    MPI_Recv(message.bytes.data(), bytes, MPI_BYTE, status.MPI_SOURCE, tag, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    return message;
  }

 private:
  static constexpr int tag = 1;
  int rank_ = 0, size_ = 1;
};

}  // namespace

extern "C" sim::study::Ranks* rehearse_open_ranks() {
  return new MpiRanks;
}
