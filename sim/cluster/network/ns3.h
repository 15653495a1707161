// ns3.h — what ns-3 must be told before it is loaded.
//
// It reads its defaults from a variable of the environment as the library is loaded, so whoever
// starts rehearse-network sets it.
#pragma once

namespace sim::network {

// Nothing that measures time may act, nothing may be dropped, and no window may limit.
inline constexpr const char* ns3_variable = "NS_ATTRIBUTE_DEFAULT";
inline constexpr const char* ns3_defaults =
    "ns3::TcpSocket::SndBufSize=1000000000;ns3::TcpSocket::RcvBufSize=1000000000;"
    "ns3::TcpSocket::ConnTimeout=1000000s;ns3::TcpSocketBase::MinRto=1000000s;"
    "ns3::FqCoDelQueueDisc::Target=1000000s;ns3::FqCoDelQueueDisc::Interval=1000000s;"
    "ns3::FqCoDelQueueDisc::MaxSize=4294967295p;ns3::FqCoDelQueueDisc::MemoryLimit=4294967295";

}  // namespace sim::network
