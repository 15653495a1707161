// main.cpp — asks for one training step and prints the JSON document.
#include <rehearse/rehearse.h>

#include <cstdio>

int main() {
  const rehearse::Reply reply = rehearse::ask("run", {"llama-2-7b-64", "tp=4"});
  std::fputs(reply.json.c_str(), stdout);
  std::fputs(reply.messages.c_str(), stderr);
  return reply.exit_code;
}
