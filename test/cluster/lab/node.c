/*
 * Makes one node of a ClickHouse cluster out of libchdb.so, for tests only.
 *
 *     CHDB_LIB=.../libchdb.so NODE_ID=1 INTERSERVER_HOST=127.0.0.1 INTERSERVER_PORT=9009 ./node --config-file=... --query=...
 *
 * The library has clickhouse-local and nearly all of a server: replicated tables, the queue of ON CLUSTER, access
 * control, TCP, HTTP and interserver handlers. What clickhouse-server alone sets up at its start is set up here, in
 * the memory of this process; the file stays as it is. Every address belongs to one build (start-lab.ts compares its
 * id); each place is compared with the instructions expected there before it is changed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Functions and variables of the build, relative to the library. */
enum {
  AT_QUERY = 0xf20ef00,              /* query_stable_v2: says where the library was loaded */
  AT_NEW = 0xeeebe00,                /* operator new */
  AT_DDL_WORKER = 0x14243400,        /* DDLWorker::DDLWorker */
  AT_DDL_STARTUP = 0x14245300,       /* DDLWorker::startup */
  AT_CREATE_HANDLER = 0x18395cc0,    /* createHandlerFactory(server, config, metrics, name) */
  AT_INTERSERVER_IO = 0x1417c9c0,    /* Context::getInterserverIOAddress */
  AT_MAY_REPLICATE_DDL = 0x142891c0, /* DatabaseCatalog::canPerformReplicatedDDLQueries */
  AT_SERVER_UUID = 0x228a3a48,       /* ServerUUID::server_uuid */
  AT_ERROR_HANDLER = 0x1c8f99c0      /* Poco::ErrorHandler::handle, three overloads, 0x80 apart */
};

/* Members of ContextSharedPart. */
enum { SHARED_HOST = 0x150, SHARED_PORT = 0x168, SHARED_SCHEME = 0x170, SHARED_CREDENTIALS = 0x1b0, SHARED_DDL_WORKER = 0xd80 };

/* What `query_stable_v2` returns. */
struct result { char *text; size_t length; void *rest; double seconds; uint64_t rows, bytes; char *error; };
/* std::shared_ptr and std::string of libc++ in its alternate layout: short ones are in place, their length is last. */
struct shared { void *object; char *control; };
union string { struct { char *text; uint64_t size, capacity; } far; char near[24]; };

static char *library;
/* Copies of the first instructions of a hooked function, which then go on in it. Named in the assembly below. */
void *original_create_handler, *original_interserver_io;

static void fail(const char *why) {
  fprintf(stderr, "node: %s\n", why);
  exit(3);
}

static const char *setting(const char *name) {
  const char *value = getenv(name);
  if (value == NULL) fail(name);
  return value;
}

static void set_string(union string *to, const char *text) {
  size_t size = strlen(text);
  memset(to, 0, sizeof *to);
  if (size < 23) {
    memcpy(to->near, text, size);
    to->near[23] = (char)size;
    return;
  }
  to->far.text = strdup(text);
  to->far.size = size;
  to->far.capacity = (size + 1) | (1ULL << 63);
}

static void overwrite(char *at, const void *bytes, size_t size) {
  uintptr_t page = (uintptr_t)at & ~4095UL;
  if (mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) fail("a page of the library cannot be changed");
  memcpy(at, bytes, size);
  mprotect((void *)page, 8192, PROT_READ | PROT_EXEC);
}

/* jmp [rip], then where to. */
static void write_jump(unsigned char *jump, void *target) {
  memcpy(jump, "\xff\x25\0\0\0\0", 6);
  memcpy(jump + 6, &target, 8);
}

/* Leads a function to `target`. `size` bytes of whole instructions, none relative, give way; returns how to call it still. */
static void *hook(uint64_t offset, size_t size, const char *expected, void *target) {
  char *at = library + offset;
  if (memcmp(at, expected, 6) != 0) fail("the library is of another build");
  unsigned char *copy = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) fail("no memory");
  memcpy(copy, at, size);
  write_jump(copy + size, at + size);
  unsigned char jump[14];
  write_jump(jump, target);
  overwrite(at, jump, sizeof jump);
  return copy;
}

/* The address under which other replicas fetch parts, which clickhouse-local leaves empty. */
void set_interserver_address(char **context) {
  static char no_login[72], nothing[48];
  char *shared = *context;
  uint16_t *port = (uint16_t *)(shared + SHARED_PORT);
  if (*port != 0) return;
  set_string((union string *)(shared + SHARED_HOST), setting("INTERSERVER_HOST"));
  set_string((union string *)(shared + SHARED_SCHEME), "http");
  *(char **)(no_login + 48) = nothing;
  *(char **)(no_login + 56) = *(char **)(no_login + 64) = nothing + sizeof nothing;
  *(char **)(shared + SHARED_CREDENTIALS) = no_login;
  *port = (uint16_t)atoi(setting("INTERSERVER_PORT"));
}

/* The queue of ON CLUSTER. */
static void start_ddl_worker(struct shared context) {
  typedef void (*construct)(void *, int, void *, void *, struct shared, void *, void *, void *, void *, void *, void *);
  static union string queue, replicas, settings, keeper, log;
  set_string(&queue, "/clickhouse/task_queue/ddl/");
  set_string(&replicas, "/clickhouse/task_queue/replicas/");
  set_string(&settings, "distributed_ddl");
  set_string(&keeper, "default");
  set_string(&log, "DDLWorker");
  void *worker = ((void *(*)(size_t))(library + AT_NEW))(0x300);
  memset(worker, 0, 0x300);
  /* The worker keeps the context: more references than it ever gives back. */
  __atomic_add_fetch((uint64_t *)(context.control + 8), 8, __ATOMIC_SEQ_CST);
  ((construct)(library + AT_DDL_WORKER))(worker, 1, &queue, &replicas, context, NULL, &settings, &keeper, &log, NULL, NULL);
  ((void (*)(void *))(library + AT_DDL_STARTUP))(worker);
  *(void **)(*(char **)context.object + SHARED_DDL_WORKER) = worker;
}

/* Runs once for each listen_host: the first answers HTTP, the second is where replicas fetch parts. */
void *choose_handler(void **server, void *name) {
  static int listeners;
  static union string interserver;
  listeners++;
  if (listeners == 1) {
    struct shared (*context_of)(void *) = ((struct shared (**)(void *))*server)[2];
    struct shared context = context_of(server);
    set_interserver_address(context.object);
    start_ddl_worker(context);
  }
  if (listeners != 2) return name;
  set_string(&interserver, "InterserverIOHTTPHandler-factory");
  return &interserver;
}

/* The hooked functions arrive here with their arguments in registers, which the original must find again. */
extern void on_create_handler(void), on_interserver_io(void);
__asm__(
  ".text\n"
  ".globl on_create_handler\n"
  "on_create_handler:\n"
  "  push %rdi\n  push %rsi\n  push %rdx\n  push %rcx\n  push %r8\n"
  "  mov %rcx, %rsi\n"
  "  call choose_handler\n"
  "  pop %r8\n  pop %rcx\n  pop %rdx\n  pop %rsi\n  pop %rdi\n"
  "  mov %rax, %rcx\n"
  "  jmp *original_create_handler(%rip)\n"
  ".globl on_interserver_io\n"
  "on_interserver_io:\n"
  "  push %rdi\n  push %rsi\n  push %rdx\n"
  "  mov %rsi, %rdi\n"
  "  call set_interserver_address\n"
  "  pop %rdx\n  pop %rsi\n  pop %rdi\n"
  "  jmp *original_interserver_io(%rip)\n"
);

int main(int argc, char **argv) {
  void *handle = dlopen(setting("CHDB_LIB"), RTLD_NOW);
  if (handle == NULL) fail(dlerror());
  struct result *(*query)(int, char **) = (struct result *(*)(int, char **))dlsym(handle, "query_stable_v2");
  if (query == NULL) fail("the library has no query_stable_v2");
  library = (char *)query - AT_QUERY;

  original_create_handler = hook(AT_CREATE_HANDLER, 17, "\x55\x41\x57\x41\x56\x41", on_create_handler);
  original_interserver_io = hook(AT_INTERSERVER_IO, 18, "\x41\x56\x53\x48\x83\xec", on_interserver_io);
  /* A server says that it may once it has started: mov al, 1; ret. */
  overwrite(library + AT_MAY_REPLICATE_DDL, "\xb0\x01\xc3", 3);
  /* clickhouse-local ends at the error of a connection, a server goes on: ret. */
  for (int i = 0; i < 3; i++) overwrite(library + AT_ERROR_HANDLER + 0x80 * i, "\xc3", 1);
  /* A server keeps its uuid in a file; replicas tell each other apart by it. */
  uint64_t *uuid = (uint64_t *)(library + AT_SERVER_UUID);
  uuid[0] = 0x4d696c6c72614365ULL;
  uuid[1] = 0x8000000000000000ULL + strtoull(setting("NODE_ID"), NULL, 10);

  struct result *result = query(argc, argv);
  if (result != NULL && result->error != NULL) fprintf(stderr, "%s\n", result->error);
  _exit(result == NULL || result->error != NULL);
}
