using Workerd = import "/workerd/workerd.capnp";

# A Durable Object with SQLite on the local disk, as `workerd serve` runs it.
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .worlds),
    (name = "disk", disk = (path = "objects", writable = true)),
  ],
  sockets = [ (name = "http", address = "127.0.0.1:0", http = (), service = "main") ],
);

const worlds :Workerd.Worker = (
  modules = [ (name = "worker.js", esModule = embed "workerd.js") ],
  compatibilityDate = "2026-04-01",
  durableObjectNamespaces = [
    (className = "World", uniqueKey = "perdure-bench", enableSql = true),
  ],
  durableObjectStorage = (localDisk = "disk"),
  bindings = [ (name = "WORLD", durableObjectNamespace = "World") ],
);
