#include <zlib.h>

#include <catch2/catch.hpp>

#include "sim/calibrate/readers/packed_bytes.h"
#include "sim/calibrate/readers/reader.h"

using namespace sim;
using namespace sim::calibrate;

namespace {

std::string measured(const std::string& name) {
  return std::string(REHEARSE_SOURCE_DIR) + "/calibration/measured/" + name;
}

}  // namespace

TEST_CASE("calibrate: the tables of kernels and collectives are read whole") {
  const auto gemm = read_source(measured("gemm.csv"));
  REQUIRE(gemm);
  CHECK(gemm->reader->name == "gemm.csv");
  std::int64_t passed = 0;
  for (const auto& [why, count] : gemm->measurements.passed) passed += count;
  CHECK(gemm->measurements.kernels.size() + static_cast<std::size_t>(passed) == 725);  // its rows
  CHECK(gemm->measurements.kernels.size() > 600);
  const auto operations = read_source(measured("op_profiles.csv"));
  REQUIRE(operations);
  CHECK(operations->reader->name == "op_profiles.csv");
  CHECK(operations->measurements.kernels.size() > 100);
  const auto nccl = read_source(measured("nccl.csv"));
  REQUIRE(nccl);
  CHECK(nccl->reader->name == "nccl.csv");
  CHECK(nccl->measurements.collectives.size() > 200);
}

TEST_CASE("calibrate: a capture's passes over memory and its launch are read") {
  const auto read = read_bytes(
      "source,where,trust,kernel,gpu,m,n,k,tflops,head_dim,time_us,bytes\n"
      "capture,,measured here,norm,A100-SXM 80GB,,,,,,100,134217728\n"
      "capture,,measured here,optimizer,A100-SXM 80GB,,,,,,2000,3758096384\n"
      "capture,,measured here,copy,A100-SXM 80GB,,,,,,100,0\n"
      "capture,,measured here,launch,A100-SXM 80GB,,,,,,5.5,\n",
      "gemm.csv");
  REQUIRE(read);
  const Measurements& found = read->measurements;
  REQUIRE(found.kernels.size() == 2);
  CHECK(found.kernels[0].group == "norm");
  CHECK(found.kernels[0].operations[0].bytes == Bytes{134217728});
  CHECK(found.kernels[1].operations[0].kind == model::OperationKind::optimizer);
  CHECK(found.kernels[1].seconds == Approx(2e-3));
  CHECK(found.passed.size() == 1);  // no bytes
  REQUIRE(found.host.size() == 1);
  CHECK(found.host[0].seconds == Approx(5.5e-6));
}

TEST_CASE("calibrate: attention with fewer queries than keys, and every kind of pass, are read") {
  const auto read = read_bytes(
      "source,where,trust,kernel,gpu,dtype,m,n,k,tflops,batch,seq,kv_seq,heads,kv_heads,head_dim,"
      "causal,direction,impl,time_us,bytes\n"
      "c,,,attention,H100-SXM 80GB,bf16,,,,,1,1024,4096,16,16,128,0,fwd,cuDNN,100,\n"
      "c,,,attention,H100-SXM 80GB,bf16,,,,,1,1024,none,16,16,128,0,fwd,cuDNN,100,\n"
      "c,,,softmax,H100-SXM 80GB,bf16,,,,,,,,,,,,,torch,100,1000000\n"
      "c,,,reduction,H100-SXM 80GB,bf16,,,,,,,,,,,,,torch,100,1000000\n"
      "c,,,embedding,H100-SXM 80GB,bf16,,,,,,,,,,,,,torch,100,1000000\n",
      "gemm.csv");
  REQUIRE(read);
  const Measurements& found = read->measurements;
  REQUIRE(found.kernels.size() == 4);
  CHECK(found.kernels[0].operations[0].query == 1024);
  CHECK(found.kernels[0].operations[0].key == 4096);
  CHECK(found.kernels[1].operations[0].kind == model::OperationKind::softmax);
  CHECK(found.kernels[2].operations[0].kind == model::OperationKind::reduction);
  CHECK(found.kernels[3].operations[0].kind == model::OperationKind::embedding);
  CHECK(found.passed.size() == 1);  // keys that are no number
}

TEST_CASE("calibrate: a rate becomes a time by its own count of FLOPs") {
  const std::string head =
      "source,where,trust,kernel,gpu,dtype,b,m,n,k,layout,accumulate,batch,seq,heads,kv_heads,"
      "head_dim,v_head_dim,causal,direction,tflops,efficiency,peak_tflops,time_us,impl,notes\n";
  // 2 x 1000^3 FLOPs at 100 TFLOP/s take 20 us.
  auto read = read_bytes(head +
                             "a/b@c:d,,file,matmul,A100-SXM 80GB,bf16,1,1000,1000,1000,NT,True,,,,,"
                             ",,,,100,,,,,\n",
                         "x.csv");
  REQUIRE(read);
  REQUIRE(read->measurements.kernels.size() == 1);
  const KernelSample& product = read->measurements.kernels[0];
  CHECK(product.seconds == Approx(20e-6));
  CHECK(product.group == "gemm weight gradient");
  CHECK(product.operations[0].accumulates_fp32);
  CHECK(product.source == "a/b");
  // The forward pass of 2 sequences of 1024 with 16 heads of 64 takes 4 s^2 d h b = 8.59e9 FLOPs.
  // Causal attention takes half. At 100 TFLOP/s this is 42.95 us. If the row counts full FLOPs, its
  // rate stands for twice the FLOPs.
  for (const char* causal : {"1", "1 (FLOPs counted full)"}) {
    read =
        read_bytes(head + "a/b@c:d,,file,attention,A100-SXM 80GB,bf16,,,,,,,2,1024,16,16,64,64," +
                       causal + ",fwd,100,,,,FlashAttention-2,\n",
                   "x.csv");
    REQUIRE(read);
    REQUIRE(read->measurements.kernels.size() == 1);
    CHECK(read->measurements.kernels[0].implementation == "flash-attention-2");
    CHECK(read->measurements.kernels[0].seconds ==
          Approx(std::string(causal) == "1" ? 42.95e-6 : 85.9e-6).epsilon(1e-3));
  }
}

TEST_CASE("calibrate: hostile cells are left out and counted") {
  const std::string head =
      "source,where,trust,collective,gpu,n_gpus,nodes,intra_net,inter_net,nccl_version,algo,bytes,"
      "dtype,time_us_oop,busbw_oop,time_us_ip,busbw_ip,notes\n";
  std::string rows;
  for (const char* cells : {"1,1,,,,auto,1024,float,10,1", "8,1,,,,auto,-5,float,10,1",
                            "8,3,,,,auto,1024,float,10,1", "8,1,,,,auto,1024,float,inf,nan",
                            "1e300,1,,,,auto,1024,float,10,1", "8,1,,,,auto,1e300,float,10,1"})
    rows += std::string("s,w,t,all_reduce,A100-SXM,") + cells + ",,,\n";
  const auto read = read_bytes(head + rows, "x.csv");
  REQUIRE(read);
  CHECK(read->measurements.collectives.empty());
  CHECK(read->measurements.passed.at("no size, layout or time") == 6);
}

TEST_CASE("calibrate: a row with a bus bandwidth alone has the time of it, also on two GPUs") {
  const std::string head =
      "source,where,trust,collective,gpu,n_gpus,nodes,intra_net,inter_net,nccl_version,algo,bytes,"
      "dtype,time_us_oop,busbw_oop,time_us_ip,busbw_ip,notes\n";
  const std::string rows =
      "s,w,t,all_reduce,A100-SXM,2,1,nvlink,,,auto,1000000,float,,100,,,\n"
      "s,w,t,all_gather,A100-SXM,4,1,nvlink,,,auto,1000000,float,,100,,,\n"
      "s,w,t,broadcast,A100-SXM,4,1,nvlink,,,auto,1000000,float,,100,,,\n";
  const auto read = read_bytes(head + rows, "x.csv");
  REQUIRE(read);
  REQUIRE(read->measurements.collectives.size() == 3);
  CHECK(read->measurements.collectives[0].seconds == Approx(10e-6));  // 2 (n - 1) / n = 1
  CHECK(read->measurements.collectives[1].seconds == Approx(7.5e-6));
  CHECK(read->measurements.collectives[2].seconds == Approx(10e-6));
}

TEST_CASE("calibrate: what no reader knows is an error that lists the formats") {
  const auto read = read_bytes("hello\n", "x.txt");
  REQUIRE_FALSE(read);
  CHECK(read.errors()[0].message.find("gemm.csv") != std::string::npos);
}

TEST_CASE("calibrate: gzip is unpacked and damaged gzip is refused") {
  CHECK_FALSE(unpacked(std::string("\x1f\x8b\x08\0\0\0\0\0\0\3garbage", 17), "x.gz"));
  CHECK_FALSE(unpacked(std::string("\x1f\x8b", 2), "x.gz"));
  const auto packed = [](const std::string& text) {
    z_stream stream{};
    REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    std::string given = text, made(1000, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(given.data());
    stream.avail_in = static_cast<uInt>(given.size());
    stream.next_out = reinterpret_cast<Bytef*>(made.data());
    stream.avail_out = static_cast<uInt>(made.size());
    REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
    made.resize(made.size() - stream.avail_out);
    deflateEnd(&stream);
    return made;
  };
  const std::string one = packed("one, "), two = packed("two");
  const auto joined = unpacked(one + two, "x.gz");  // several members in a row are one file
  REQUIRE(joined);
  CHECK(*joined == "one, two");
  CHECK(unpacked(one.substr(0, one.size() - 9), "x.gz").errors()[0].message ==
        "gzip: the file ends too early");
  CHECK_FALSE(unpacked(one + "\x1f\x8b\x08 and no more of it", "x.gz"));
  const auto plain = unpacked("text", "x");
  REQUIRE(plain);
  CHECK(*plain == "text");
}
