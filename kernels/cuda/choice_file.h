// A small file of lines "key<TAB>value", shared by processes: the first value stored for a key is the one that stays. A
// cache: when it cannot be read or written, one sentence says so and work goes on without.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

namespace kvlab::cuda {

class ChoiceFile {
 public:
  using Tell = std::function<void(const std::string& sentence)>;

  using IsValue = std::function<bool(const std::string& value)>;

  /// `path` empty: nothing is kept beyond this object. Lines whose value is none count as damaged. `tell` hears of the
  /// first trouble only.
  ChoiceFile(std::filesystem::path path, IsValue is_value, Tell tell);

  /// The value of a key, or "".
  std::string find(const std::string& key);
  /// Stores a value unless the key has one by now; returns the one that holds. Neither may hold a tab or a line end.
  std::string store(const std::string& key, const std::string& value);

 private:
  using Lines = std::map<std::string, std::string>;
  Lines read();
  void write(const Lines& lines);
  void trouble(const std::string& what);

  std::filesystem::path path_;
  IsValue is_value_;
  Tell tell_;
  bool told_ = false;
  bool is_loaded_ = false;
  Lines lines_;
};

/// product_choices.txt in $XDG_CACHE_HOME/kvlab, else in ~/.cache/kvlab; empty when neither variable is an absolute
/// path.
std::filesystem::path product_choices_path();

}  // namespace kvlab::cuda
