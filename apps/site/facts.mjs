// Numbers of the prose that the program knows, `facts.KEY`.

/** run(...args) returns what the program prints. */
export function facts(run) {
  const {encodings} = JSON.parse(run('list', '--json'));
  const table = run('inspect', '--families').split('\n').filter(line => line.startsWith('| '));
  return {
    encodings: String(encodings.length),
    families: String(table.length - 1),  // the first line is the head
    version: run('--version').trim().split(' ').at(-1),
  };
}
