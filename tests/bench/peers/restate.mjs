// A virtual object that applies a command to its world's state: admission is Restate's own.
import * as http2 from "node:http2";

// Node 20 lacks it, and the SDK asks for it.
Promise.withResolvers ??= function () {
  let resolve, reject;
  const promise = new this((yes, no) => { resolve = yes; reject = no; });
  return { promise, resolve, reject };
};

const restate = await import("@restatedev/restate-sdk");

const world = restate.object({
  name: "world",
  handlers: {
    apply: async (context, { commands }) => {
      const entities = (await context.get("entities")) ?? 0;
      context.set(`entity-${entities}`, commands);
      context.set("entities", entities + commands.length);
    },
    entities: restate.handlers.object.shared(async (context) => (await context.get("entities")) ?? 0),
  },
});

const server = http2.createServer(restate.createEndpointHandler({ services: [world] }));
server.listen(0, "127.0.0.1", () => console.log(JSON.stringify({ port: server.address().port })));
