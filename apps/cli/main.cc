#include "apps/cli/command.h"

int main(int argc, char** argv) { return gnomon::cli::run_program(argc, argv); }
