#include "src/plot/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace gnomon::plot {
namespace sha256_test {

using internal::sha256_base64;

// FIPS 180-4 and the examples of NIST, in base64.
TEST(Sha256, IsThatOfTheStandard) {
  EXPECT_EQ(sha256_base64(""), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
  EXPECT_EQ(sha256_base64("abc"), "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
  EXPECT_EQ(sha256_base64("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "JI1qYdIGOLjlwCaTDD5gOaM85Flk/yFn9uzt1BnbBsE=");
  EXPECT_EQ(sha256_base64(std::string(1'000'000, 'a')),
            "zcduXJkU+5KBocfihNc+Z/GAmkiklyAOBG05zMcRLNA=");
}

TEST(Sha256, HasHexadecimalDigits) {
  EXPECT_EQ(internal::sha256_hex("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace sha256_test
}  // namespace gnomon::plot
