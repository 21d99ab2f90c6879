-- Every lease of one node that can be read. It reads the ledger of the whole shard: for when a node comes or goes, or data got lost.
local function leases_of(node, leases)
  local mine, tail = {}, '#' .. node
  for _, lease in ipairs(redis.call('ZRANGE', leases, 0, -1)) do
    if string.sub(lease, -#tail) == tail and read_lease(lease) then mine[#mine + 1] = lease end
  end
  return mine
end
