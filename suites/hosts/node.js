// Node, by an addon: what it recovers from are signals.
const host = require(process.env.HOST_ADDON);
let came = 0;
const count = 10_000;
process.on("SIGUSR2", () => { came += 1; next(); });
const next = () => {
  if (came < count) return process.kill(process.pid, "SIGUSR2");
  console.log("recovered", came);
  end();
};
const end = () => { clearInterval(alive); host.uninstall(); };
const alive = setInterval(() => {}, 1000);
host.install();
switch (process.argv[2]) {
  case "recover": next(); break;
  case "stall": host.stall(); end(); break;
  case "crash": host.crash(); break;
  default: process.abort();
}
