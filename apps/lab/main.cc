#include "apps/lab/commands.h"

int main(int argc, char** argv) { return gnomon::lab::run_program(argc, argv); }
