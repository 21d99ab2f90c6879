-- Every lease of one node that can be read. The ledger of a shard is small, and this runs only when a node comes or goes.
local function leases_of(node, leases)
  local mine, tail = {}, '#' .. node
  for _, lease in ipairs(redis.call('ZRANGE', leases, 0, -1)) do
    if string.sub(lease, -#tail) == tail and read_lease(lease) then mine[#mine + 1] = lease end
  end
  return mine
end
