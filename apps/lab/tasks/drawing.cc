#include "apps/lab/tasks/image.h"

#include <algorithm>
#include <cmath>

namespace gnomon::lab::image_examples {
namespace {

// A part of an ellipse, from an angle to another in degrees: 0 is to the right, 90 down.
Glyph arc(Point centre, double radius_x, double radius_y, double from, double to) {
  const auto at = [&](double degrees) {
    const double angle = degrees * M_PI / 180;
    return Point{centre.x + radius_x * std::cos(angle), centre.y + radius_y * std::sin(angle)};
  };
  constexpr double step = 30;  // degrees
  const int count = static_cast<int>(std::ceil(std::abs(to - from) / step));
  Glyph lines;
  for (int i = 0; i < count; ++i)
    lines.push_back(
        {at(from + (to - from) * i / count), at(from + (to - from) * (i + 1) / count)});
  return lines;
}

Glyph polyline(const std::vector<Point>& points) {
  Glyph lines;
  for (std::size_t i = 0; i + 1 < points.size(); ++i)
    lines.push_back({points[i], points[i + 1]});
  return lines;
}

Glyph operator+(Glyph a, const Glyph& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

double distance(Point p, const Line& line) {
  const double dx = line.to.x - line.from.x, dy = line.to.y - line.from.y;
  const double square = dx * dx + dy * dy;
  const double along =
      square > 0
          ? std::clamp(((p.x - line.from.x) * dx + (p.y - line.from.y) * dy) / square, 0.0, 1.0)
          : 0;
  return std::hypot(p.x - line.from.x - along * dx, p.y - line.from.y - along * dy);
}

}  // namespace

Glyph digit_glyph(std::int64_t digit) {
  if (digit == 0) return arc({0.5, 0.5}, 0.42, 0.5, 0, 360);
  if (digit == 1) return polyline({{0.25, 0.22}, {0.55, 0}, {0.55, 1}});
  if (digit == 2)
    return arc({0.5, 0.28}, 0.4, 0.28, 190, 390) + polyline({{0.85, 0.42}, {0.1, 1}, {0.9, 1}});
  if (digit == 3)
    return arc({0.45, 0.26}, 0.4, 0.26, 200, 450) + arc({0.45, 0.74}, 0.42, 0.26, 270, 520);
  if (digit == 4) return polyline({{0.7, 1}, {0.7, 0}, {0.1, 0.65}, {0.95, 0.65}});
  if (digit == 5)
    return polyline({{0.85, 0}, {0.2, 0}, {0.17, 0.45}}) +
           arc({0.47, 0.69}, 0.42, 0.31, 225, 510);
  const Glyph six =
      polyline({{0.7, 0}, {0.35, 0.25}, {0.13, 0.62}}) + arc({0.5, 0.7}, 0.38, 0.3, 0, 360);
  if (digit == 6) return six;
  if (digit == 7) return polyline({{0.1, 0}, {0.9, 0}, {0.4, 1}});
  if (digit == 8)
    return arc({0.5, 0.25}, 0.34, 0.25, 0, 360) + arc({0.5, 0.75}, 0.42, 0.25, 0, 360);
  return moved(six, [](Point p) { return Point{1 - p.x, 1 - p.y}; });
}

Glyph shape_glyph(std::int64_t shape) {
  if (shape == 0) return arc({0.5, 0.5}, 0.5, 0.5, 0, 360);
  if (shape == 1) return polyline({{0, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 0}});
  if (shape == 2) return polyline({{0.5, 0}, {1, 1}, {0, 1}, {0.5, 0}});
  if (shape == 3) return {{{0, 0}, {1, 1}}, {{1, 0}, {0, 1}}};
  return {{{0.5, 0}, {0.5, 1}}, {{0, 0.5}, {1, 0.5}}};
}

double uniform(double low, double high, Draws& draws) {
  return low + (high - low) * std::ldexp(static_cast<double>(draws.next() >> 11), -53);
}

void Canvas::draw(const Glyph& lines, double thickness, double clip_left, double clip_right) {
  const double reach = thickness / 2 + 1 / scale_;
  const auto pixel = [&](double units) {
    return std::clamp(static_cast<std::int64_t>(std::floor(units * scale_)), std::int64_t{0},
                      side_ - 1);
  };
  for (const Line& line : lines) {
    const auto [left, right] = std::minmax(line.from.x, line.to.x);
    const auto [top, bottom] = std::minmax(line.from.y, line.to.y);
    for (std::int64_t y = pixel(top - reach); y <= pixel(bottom + reach); ++y)
      for (std::int64_t x = pixel(left - reach); x <= pixel(right + reach); ++x) {
        const Point centre{(static_cast<double>(x) + 0.5) / scale_,
                           (static_cast<double>(y) + 0.5) / scale_};
        if (centre.x < clip_left || centre.x >= clip_right) continue;
        const double ink = 0.5 + (thickness / 2 - distance(centre, line)) * scale_;
        float& value = values_[static_cast<std::size_t>(y * side_ + x)];
        value = std::max(value, static_cast<float>(std::clamp(ink, 0.0, 1.0)));
      }
  }
}

void Canvas::add_noise(double amplitude, Draws& draws) {
  for (float& value : values_)
    value += static_cast<float>(uniform(-amplitude, amplitude, draws));
}

std::string as_text(const std::vector<std::vector<float>>& pictures, std::int64_t side) {
  constexpr std::int64_t columns = 2, rows = 4;
  // The bit of each dot in the code point, by row and column.
  constexpr unsigned bits[rows][columns] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
  std::string text;
  const auto put = [&](unsigned dots) {  // U+2800 + dots, in UTF-8
    text += {'\xe2', static_cast<char>(0xa0 + dots / 64), static_cast<char>(0x80 + dots % 64)};
  };
  for (std::size_t first = 0; first < pictures.size(); first += 2)
    for (std::int64_t y = 0; y < side; y += rows) {
      for (std::size_t p = first; p < std::min(first + 2, pictures.size()); ++p) {
        if (p > first) put(0), put(0);
        for (std::int64_t x = 0; x < side; x += columns) {
          unsigned dots = 0;
          for (std::int64_t i = 0; i < rows && y + i < side; ++i)
            for (std::int64_t j = 0; j < columns && x + j < side; ++j)
              if (pictures[p][static_cast<std::size_t>((y + i) * side + x + j)] > 0.5f)
                dots |= bits[i][j];
          put(dots);
        }
      }
      text += '\n';
    }
  return text;
}

}  // namespace gnomon::lab::image_examples
