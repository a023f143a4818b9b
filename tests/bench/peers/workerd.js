// Admission in a Durable Object: a command row and an outbox row in one transaction, then the reply.
import { DurableObject } from "cloudflare:workers";

export class World extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    const sql = ctx.storage.sql;
    sql.exec("CREATE TABLE IF NOT EXISTS command (id TEXT PRIMARY KEY, sequence INTEGER, body TEXT)");
    sql.exec("CREATE TABLE IF NOT EXISTS outbox (sequence INTEGER PRIMARY KEY, id TEXT)");
    this.next = sql.exec("SELECT coalesce(max(sequence), 0) + 1 AS next FROM command").one().next;
  }

  async fetch(request) {
    const batch = request.headers.get("idempotency-key");
    const { commands } = await request.json();
    const receipts = this.ctx.storage.transactionSync(() =>
      commands.map((command, index) => this.admitted(`${batch}.${index}`, command)),
    );
    return Response.json({ receipts }, { status: 202 });
  }

  admitted(id, command) {
    const sql = this.ctx.storage.sql;
    const known = sql.exec("SELECT sequence FROM command WHERE id = ?", id).toArray();
    if (known.length) return { command_id: id, sequence: known[0].sequence };
    const sequence = this.next++;
    sql.exec("INSERT INTO command VALUES (?, ?, ?)", id, sequence, JSON.stringify(command));
    sql.exec("INSERT INTO outbox VALUES (?, ?)", sequence, id);
    return { command_id: id, sequence };
  }
}

export default {
  async fetch(request, env) {
    const [, , , world] = new URL(request.url).pathname.split("/"); // /v1/worlds/<world>/commands
    return env.WORLD.get(env.WORLD.idFromName(world)).fetch(request);
  },
};
