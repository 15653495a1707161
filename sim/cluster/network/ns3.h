// ns3.h — defaults of ns-3 that must be set before its library is loaded.
//
// ns-3 reads an environment variable at load time, so the process that starts rehearse-network sets
// it.
#pragma once

namespace sim::network {

// Disables timers, drops and window limits. A NIC's own queue has room for one packet. With the
// usual 100, acknowledgements wait there behind data that the same NIC sends to another peer. Now
// they wait in the fair queue above it, which lets other flows pass.
inline constexpr const char* ns3_variable = "NS_ATTRIBUTE_DEFAULT";
inline constexpr const char* ns3_defaults =
    "ns3::TcpSocket::SndBufSize=1000000000;ns3::TcpSocket::RcvBufSize=1000000000;"
    "ns3::TcpSocket::ConnTimeout=1000000s;ns3::TcpSocketBase::MinRto=1000000s;"
    "ns3::FqCoDelQueueDisc::Target=1000000s;ns3::FqCoDelQueueDisc::Interval=1000000s;"
    "ns3::FqCoDelQueueDisc::MaxSize=4294967295p;ns3::FqCoDelQueueDisc::MemoryLimit=4294967295;"
    "ns3::DropTailQueue<Packet>::MaxSize=1p";

}  // namespace sim::network
