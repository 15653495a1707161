// main.cpp — asks for one training step and prints the JSON document.
#include <rehearse/rehearse.h>

#include <iostream>

int main() {
  const rehearse::Reply reply = rehearse::ask("run", {"llama-2-7b-64", "tp=4"});
  std::cout << reply.json;
  std::cerr << reply.messages;
  return reply.exit_code;
}
