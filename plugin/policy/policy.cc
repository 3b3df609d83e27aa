#include "plugin/policy/policy.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/list.h"
#include "base/text.h"
#include "plugin/policy/document.h"
#include "plugin/policy/parse.h"

namespace nomad_bridge::policy {
namespace {

// Goes back to the last '*' only: an earlier one could not match more.
bool MatchesGlob(std::string_view glob, std::string_view text) {
  std::size_t at = 0;
  std::size_t star = glob.npos;
  std::size_t resumed = 0;  // where in `text` what follows the last '*' was tried
  for (std::size_t i = 0; i < text.size();) {
    if (at < glob.size() && glob[at] == '*') {
      star = at++;
      resumed = i;
    } else if (at < glob.size() && (glob[at] == '?' || glob[at] == text[i])) {
      ++i;
      while (glob[at] == '?' && i < text.size() && !BeginsCharacter(text[i])) {
        ++i;
      }
      ++at;
    } else if (star != glob.npos) {
      at = star + 1;
      i = ++resumed;
    } else {
      return false;
    }
  }
  return glob.find_first_not_of('*', at) == glob.npos;
}

// What identifies a file's content, as far as lstat(2) and stat(2) know.
struct Seen {
  std::string name;
  ino_t inode = 0;
  off_t size = 0;
  std::int64_t changed_ns = 0;

  bool operator==(const Seen&) const = default;
};

// By name: the files whose policies are in force.
std::vector<Seen> ListFiles(const std::string& directory, std::vector<std::string>& left_out) {
  std::vector<std::string> names = Entries(directory);
  std::ranges::sort(names);
  std::vector<Seen> files;
  for (const std::string& name : names) {
    struct stat status = {};
    const std::string path = Cat(directory, '/', name);
    // Hidden ones are editors'.
    if (!name.ends_with(".json") || name.starts_with('.')) {
      left_out.push_back(Cat(path, ": left out, policies are in *.json"));
    } else if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
      throw Error(Code::kIo,
                  Format("cannot read '{}'", path),
                  "policies are in regular files, or links to them");
    } else {
      files.push_back(
          {.name = name,
           .inode = status.st_ino,
           .size = status.st_size,
           .changed_ns = status.st_ctim.tv_sec * 1'000'000'000 + status.st_ctim.tv_nsec});
    }
  }
  return files;
}

// Throws kTryAgain if one of them was changed meanwhile: half of a file may be another policy.
std::vector<SourceText> ReadFiles(const std::string& directory,
                                  std::vector<std::string>& left_out) {
  const std::vector<Seen> files = ListFiles(directory, left_out);
  std::vector<SourceText> sources;
  for (const Seen& file : files) {
    const std::string path = Cat(directory, '/', file.name);
    sources.push_back({.file = path, .text = FindFile(path).value_or("")});
  }
  std::vector<std::string> the_same;
  if (ListFiles(directory, the_same) != files) {
    throw Error(Code::kTryAgain,
                Format("policies in '{}' were changed while they were read", directory));
  }
  return sources;
}

}  // namespace

bool Selects(const Selector& selector, const cni::Workload& workload) {
  return !workload.nomad_namespace.empty() &&
         MatchesGlob(selector.nomad_namespace, workload.nomad_namespace) &&
         (selector.job.empty() || MatchesGlob(selector.job, workload.job) ||
          MatchesGlob(selector.job, cni::ParentJob(workload.job))) &&
         (selector.group.empty() || MatchesGlob(selector.group, workload.group));
}

std::string Text(const Selector& selector) {
  return Cat("namespace=",
             selector.nomad_namespace,
             selector.job.empty() ? "" : Cat(" job=", selector.job),
             selector.group.empty() ? "" : Cat(" group=", selector.group));
}

std::vector<Peer> PeersOf(const Policy& policy) {
  std::vector<Peer> peers;
  for (const std::vector<Entry>* const entries : {&policy.allow, &policy.deny}) {
    for (const Entry& entry : *entries) {
      Append(peers, entry.peers);
    }
  }
  return peers;
}

Policies ReadPolicies(const std::string& directory, std::vector<std::string>& remarks) {
  if (!FindStatus(directory)) {
    return {};
  }
  if (std::error_code ignored; !std::filesystem::is_directory(directory, ignored)) {
    throw Error(Code::kIo,
                Format("cannot read policies in '{}'", directory),
                "it is no directory: policies are in its *.json files");
  }
  Policies policies = ParsePolicies(ReadFiles(directory, remarks), remarks);
  if (policies.policies.empty()) {
    remarks.push_back(Format("there is no policy in '{}'", directory));
  }
  return policies;
}

}  // namespace nomad_bridge::policy
