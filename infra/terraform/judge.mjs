// Judges requests as AWS documents it: a JSON list of simulations on standard input, a list of results on standard output.
// The judge is @cloud-copilot/iam-simulate, which also refuses actions, resources and condition keys that AWS does not have.
import { runSimulation } from "@cloud-copilot/iam-simulate"

let text = ""
for await (const piece of process.stdin) text += piece
const found = []
for (const asked of JSON.parse(text)) {
  const answer = await runSimulation({ serviceControlPolicies: [], resourceControlPolicies: [], ...asked }, {})
  found.push(answer.overallResult ?? `error: ${JSON.stringify(answer.errors)}`)
}
console.log(JSON.stringify(found))
