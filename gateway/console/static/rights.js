import { post } from "./api.js";
import { useLoad } from "./load.js";
import { readonly } from "./session.js";

// One boolean for each of `rights`, [operation, resource type, resource]; all false until it is known.
export function useRights(...rights) {
  const asked = rights.map(([operation, resource_type, resource]) => ({ operation, resource_type, resource }));
  const { data } = useLoad((signal) => post("/v1/whoami:test", { rights: asked }, { signal }), [JSON.stringify(asked)]);
  return data ? data.allowed : rights.map(() => false);
}

export const useChanges = (...rights) => useRights(...rights).map((allowed) => allowed && !readonly);
