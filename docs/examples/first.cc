#include <gnomon/rotary/rotary.h>

int main() {
  const gnomon::Rotary llama3{
      .rotary_dim = 128, .pairing = gnomon::Pairing::halves, .base = 5e5};
  const gnomon::RotaryTable table(llama3, gnomon::consecutive(512));  // positions 0 to 511
  std::vector<float> queries(512 * 32 * 128, 1.0f), keys(512 * 8 * 128, 1.0f);  // [T, H, D]
  gnomon::rotate(gnomon::View<float, 3>(queries.data(), {512, 32, 128}), table);
  gnomon::rotate(gnomon::View<float, 3>(keys.data(), {512, 8, 128}), table);
}
