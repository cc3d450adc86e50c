// A library for LD_PRELOAD that makes system calls fail. It counts the calls that concern files
// below one folder, and fails one of them. Variables of the environment, which child processes
// do not get:
//
//   GNOMON_FAULT_ROOT  the folder
//   GNOMON_FAULT_LOG   a file: a line for each counted call, "NAME PATH" or "FAULT NAME PATH"
//   GNOMON_FAULT       NAME:N:ERRNO: the N-th call of NAME fails, from 1; NAME:N:short: it
//                      reads or writes half of the bytes
//   GNOMON_FAULT_FULL  after this number of bytes, the disk is full: ENOSPC
//   GNOMON_FAULT_NAMED 1: the file system has no O_TMPFILE
//
// Calls that libraries make inside the C library (fwrite, for example) are not counted.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { kept = 0, failed = 1, shortened = 2 };

static char root[4096], target[32];
static size_t root_size;
static int log_file = -1, wanted_error, is_short, is_named;
static long wanted_call, calls, space = -1;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void take(const char* name, char* to, size_t size) {
  const char* value = getenv(name);
  if (value && strlen(value) < size) strcpy(to, value);
  unsetenv(name);
}

__attribute__((constructor)) static void begin(void) {
  char text[4096] = "";
  take("GNOMON_FAULT_ROOT", root, sizeof root);
  root_size = strlen(root);
  take("GNOMON_FAULT_LOG", text, sizeof text);
  if (*text)
    log_file = (int)syscall(SYS_openat, AT_FDCWD, text,
                            O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log_file >= 0) {  // leaves the lowest numbers to the program
    const int high = (int)syscall(SYS_fcntl, log_file, F_DUPFD_CLOEXEC, 500);
    syscall(SYS_close, log_file);
    log_file = high;
  }
  strcpy(text, "");
  take("GNOMON_FAULT_FULL", text, sizeof text);
  if (*text) space = atol(text);
  strcpy(text, "");
  take("GNOMON_FAULT_NAMED", text, sizeof text);
  is_named = *text == '1';
  strcpy(text, "");
  take("GNOMON_FAULT", text, sizeof text);
  char* number = strchr(text, ':');
  char* error = number ? strchr(number + 1, ':') : NULL;
  if (error) {
    *number = *error = 0;
    snprintf(target, sizeof target, "%.31s", text);
    wanted_call = atol(number + 1);
    is_short = !strcmp(error + 1, "short");
    wanted_error = is_short ? EINTR : atoi(error + 1);
  }
  unsetenv("LD_PRELOAD");
}

// Whether a path, relative to the folder `at`, is below the root. `full`: the path.
static int below(int at, const char* path, char* full) {
  char folder[4200], link[64];
  if (!root_size || !path) return 0;
  if (*path == '/') {
    snprintf(full, 8400, "%s", path);
  } else {
    snprintf(link, sizeof link, at == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", at);
    const ssize_t size = syscall(SYS_readlink, link, folder, sizeof folder - 1);
    if (size < 0) return 0;
    folder[size] = 0;
    snprintf(full, 8400, "%s/%s", folder, path);
  }
  return !strncmp(full, root, root_size);
}
static int below_file(int file, char* full) {
  return file >= 0 && file != log_file && below(file, "", full);
}

// Decides about one call.
static int decide(const char* name, const char* path, long* bytes) {
  const int before = errno;
  int what = kept, error = 0;
  char line[8600];
  pthread_mutex_lock(&mutex);
  if (!strcmp(target, name)) {
    ++calls;
    if (calls == wanted_call) {
      what = is_short ? shortened : failed;
      error = wanted_error;
    }
  }
  if (what == shortened && (!bytes || *bytes < 2)) what = kept;
  if (bytes && what == shortened) *bytes /= 2;
  if (bytes && what == kept && space >= 0 && !strcmp(name, "write")) {
    if (*bytes > space) {
      what = space > 0 ? shortened : failed;
      *bytes = space;
      error = ENOSPC;
    }
    space -= *bytes;
  }
  if (log_file >= 0) {
    const int size = snprintf(line, sizeof line, "%s%s %s\n", what ? "FAULT " : "", name, path);
    syscall(SYS_write, log_file, line, size);
  }
  pthread_mutex_unlock(&mutex);
  errno = what == failed ? error : before;
  return what;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAILS(name, path) (decide(name, path, NULL) == failed)

static const char* opening(int flags) {
  return (flags & O_TMPFILE) == O_TMPFILE ? "open_nameless"
         : flags & O_DIRECTORY            ? "open_folder"
         : flags & (O_WRONLY | O_RDWR)    ? "open_write"
                                          : "open_read";
}
static int opened(int at, const char* path, int flags, mode_t mode) {
  char full[8400];
  if (below(at, path, full)) {
    if (is_named && (flags & O_TMPFILE) == O_TMPFILE) {
      errno = EOPNOTSUPP;
      return -1;
    }
    if (FAILS(opening(flags), full)) return -1;
  }
  return (int)syscall(SYS_openat, at, path, flags, mode);
}
#define MODE                           \
  mode_t mode = 0;                     \
  if (flags & (O_CREAT | O_TMPFILE)) { \
    va_list list;                      \
    va_start(list, flags);             \
    mode = (mode_t)va_arg(list, int);  \
    va_end(list);                      \
  }
int open(const char* path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int open64(const char* path, int flags, ...) {
  MODE return opened(AT_FDCWD, path, flags, mode);
}
int openat(int at, const char* path, int flags, ...) {
  MODE return opened(at, path, flags, mode);
}
int openat64(int at, const char* path, int flags, ...) {
  MODE return opened(at, path, flags, mode);
}

// Functions of a path. PATH(result, name, logged name, result of a failure, folder, path,
// (parameters), (arguments))
#define PATH(result, name, shown, bad, at, path, parameters, arguments) \
  result name parameters {                                              \
    char full[8400];                                                    \
    if (below(at, path, full) && FAILS(shown, full)) return bad;        \
    return REAL(name) arguments;                                        \
  }
#define HERE AT_FDCWD
PATH(FILE*, fopen, *mode == 'r' ? "open_read" : "open_write", NULL, HERE, p,
     (const char* p, const char* mode), (p, mode))
PATH(FILE*, fopen64, *mode == 'r' ? "open_read" : "open_write", NULL, HERE, p,
     (const char* p, const char* mode), (p, mode))
PATH(DIR*, opendir, "open_folder", NULL, HERE, p, (const char* p), (p))
PATH(int, mkdir, "mkdir", -1, HERE, p, (const char* p, mode_t m), (p, m))
PATH(int, mkdirat, "mkdir", -1, at, p, (int at, const char* p, mode_t m), (at, p, m))
PATH(char*, mkdtemp, "mkdir", NULL, HERE, p, (char* p), (p))
PATH(int, rmdir, "unlink", -1, HERE, p, (const char* p), (p))
PATH(int, unlink, "unlink", -1, HERE, p, (const char* p), (p))
PATH(int, unlinkat, "unlink", -1, at, p, (int at, const char* p, int f), (at, p, f))
PATH(int, remove, "unlink", -1, HERE, p, (const char* p), (p))
PATH(int, rename, "rename", -1, HERE, p, (const char* p, const char* to), (p, to))
PATH(int, renameat, "rename", -1, at, p, (int at, const char* p, int end, const char* to),
     (at, p, end, to))
PATH(int, link, "link", -1, HERE, to, (const char* p, const char* to), (p, to))
PATH(int, linkat, "link", -1, end, to, (int at, const char* p, int end, const char* to, int f),
     (at, p, end, to, f))
PATH(int, symlink, "link", -1, HERE, to, (const char* p, const char* to), (p, to))
PATH(int, stat, "stat", -1, HERE, p, (const char* p, struct stat* s), (p, s))
PATH(int, stat64, "stat", -1, HERE, p, (const char* p, struct stat64* s), (p, s))
PATH(int, lstat, "stat", -1, HERE, p, (const char* p, struct stat* s), (p, s))
PATH(int, lstat64, "stat", -1, HERE, p, (const char* p, struct stat64* s), (p, s))
PATH(int, fstatat, "stat", -1, at, p, (int at, const char* p, struct stat* s, int f),
     (at, p, s, f))
PATH(int, fstatat64, "stat", -1, at, p, (int at, const char* p, struct stat64* s, int f),
     (at, p, s, f))
PATH(int, access, "access", -1, HERE, p, (const char* p, int m), (p, m))
PATH(int, chmod, "chmod", -1, HERE, p, (const char* p, mode_t m), (p, m))
PATH(int, fchmodat, "chmod", -1, at, p, (int at, const char* p, mode_t m, int f), (at, p, m, f))
PATH(int, truncate, "truncate", -1, HERE, p, (const char* p, off_t n), (p, n))
PATH(int, truncate64, "truncate", -1, HERE, p, (const char* p, off64_t n), (p, n))
PATH(int, statvfs, "statvfs", -1, HERE, p, (const char* p, struct statvfs* s), (p, s))
PATH(int, statvfs64, "statvfs", -1, HERE, p, (const char* p, struct statvfs64* s), (p, s))
PATH(ssize_t, readlink, "readlink", -1, HERE, p, (const char* p, char* to, size_t n),
     (p, to, n))
PATH(char*, realpath, "readlink", NULL, HERE, p, (const char* p, char* to), (p, to))

// Functions of an open file.
#define OPEN_FILE(result, name, shown, bad, file, parameters, arguments) \
  result name parameters {                                               \
    char full[8400];                                                     \
    if (below_file(file, full) && FAILS(shown, full)) return bad;        \
    return REAL(name) arguments;                                         \
  }
OPEN_FILE(int, fstat, "fstat", -1, f, (int f, struct stat* s), (f, s))
OPEN_FILE(int, fstat64, "fstat", -1, f, (int f, struct stat64* s), (f, s))
OPEN_FILE(int, fchmod, "chmod", -1, f, (int f, mode_t m), (f, m))
OPEN_FILE(int, fsync, "fsync", -1, f, (int f), (f))
OPEN_FILE(int, fdatasync, "fsync", -1, f, (int f), (f))
OPEN_FILE(int, ftruncate, "truncate", -1, f, (int f, off_t n), (f, n))
OPEN_FILE(int, ftruncate64, "truncate", -1, f, (int f, off64_t n), (f, n))
OPEN_FILE(int, posix_fallocate, "truncate", errno, f, (int f, off_t a, off_t n), (f, a, n))
OPEN_FILE(int, posix_fallocate64, "truncate", errno, f, (int f, off64_t a, off64_t n),
          (f, a, n))
OPEN_FILE(int, flock, "flock", -1, f, (int f, int n), (f, n))
OPEN_FILE(DIR*, fdopendir, "open_folder", NULL, f, (int f), (f))
OPEN_FILE(void*, mmap, "mmap", MAP_FAILED, f, (void* a, size_t n, int p, int g, int f, off_t o),
          (a, n, p, g, f, o))
OPEN_FILE(void*, mmap64, "mmap", MAP_FAILED, f,
          (void* a, size_t n, int p, int g, int f, off64_t o), (a, n, p, g, f, o))
OPEN_FILE(ssize_t, writev, "write", -1, f, (int f, const struct iovec* v, int n), (f, v, n))
OPEN_FILE(ssize_t, sendfile, "write", -1, f, (int f, int in, off_t* o, size_t n), (f, in, o, n))
OPEN_FILE(ssize_t, sendfile64, "write", -1, f, (int f, int in, off64_t* o, size_t n),
          (f, in, o, n))
OPEN_FILE(ssize_t, copy_file_range, "write", -1, f,
          (int in, off64_t* i, int f, off64_t* o, size_t n, unsigned g), (in, i, f, o, n, g))
OPEN_FILE(struct dirent*, readdir, "readdir", NULL, dirfd(d), (DIR * d), (d))
OPEN_FILE(struct dirent64*, readdir64, "readdir", NULL, dirfd(d), (DIR * d), (d))

// Transfers of bytes, which may be shortened.
#define TRANSFER(name, shown, parameters, arguments)        \
  ssize_t name parameters {                                 \
    char full[8400];                                        \
    long bytes = (long)n;                                   \
    if (below_file(f, full)) {                              \
      if (decide(shown, full, &bytes) == failed) return -1; \
      n = (size_t)bytes;                                    \
    }                                                       \
    return REAL(name) arguments;                            \
  }
TRANSFER(write, "write", (int f, const void* b, size_t n), (f, b, n))
TRANSFER(pwrite, "write", (int f, const void* b, size_t n, off_t o), (f, b, n, o))
TRANSFER(pwrite64, "write", (int f, const void* b, size_t n, off64_t o), (f, b, n, o))
TRANSFER(read, "read", (int f, void* b, size_t n), (f, b, n))
TRANSFER(pread, "read", (int f, void* b, size_t n, off_t o), (f, b, n, o))
TRANSFER(pread64, "read", (int f, void* b, size_t n, off64_t o), (f, b, n, o))

// The file is closed even if an error is reported.
int close(int f) {
  char full[8400];
  const int fails = below_file(f, full) && FAILS("close", full);
  const int error = errno, result = (int)syscall(SYS_close, f);
  if (!fails) return result;
  errno = error;
  return -1;
}

// Resources without a path. Only threads of C++ count: OpenMP ends the process itself.
static int is_of(void* caller, const char* library) {
  Dl_info found;
  return dladdr(caller, &found) && found.dli_fname && strstr(found.dli_fname, library);
}
int pthread_create(pthread_t* t, const pthread_attr_t* a, void* (*work)(void*), void* data) {
  if (root_size && is_of(__builtin_return_address(0), "libstdc++") && FAILS("thread", "-"))
    return errno;
  return REAL(pthread_create)(t, a, work, data);
}
pid_t fork(void) {
  if (root_size && FAILS("fork", "-")) return -1;
  return REAL(fork)();
}
int pipe2(int ends[2], int flags) {
  if (root_size && FAILS("pipe", "-")) return -1;
  return REAL(pipe2)(ends, flags);
}
int pipe(int ends[2]) {
  if (root_size && FAILS("pipe", "-")) return -1;
  return REAL(pipe)(ends);
}
