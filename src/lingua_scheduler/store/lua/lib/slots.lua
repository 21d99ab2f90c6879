-- Some leases less, node by node: free slots follow from a node's limit, unless it takes no work. To be called when they
-- are removed: where `held` says fewer than are given back, or a lease was `lost` before it ended, the leases of the node
-- are counted, and it holds these at least. What `held` says beyond them may be a job whose lease got lost too.
local function give_back(given, lost, free, held, limits, leases)
  local nodes, gone, fewer, offered = {}, {}, {}, {}
  for node in pairs(given) do nodes[#nodes + 1] = node end
  if #nodes == 0 then return end
  local running, limit = redis.call('ZMSCORE', held, unpack(nodes)), redis.call('HMGET', limits, unpack(nodes))
  for i, node in ipairs(nodes) do
    local left = tonumber(running[i] or 0) - given[node]
    if left < 0 or lost[node] then left = math.max(left, #leases_of(node, leases)) end
    if left > 0 then
      fewer[#fewer + 1], fewer[#fewer + 2] = left, node
    else
      gone[#gone + 1] = node
    end
    local slots = read_slots(limit[i])
    if slots then offered[#offered + 1], offered[#offered + 2] = math.max(0, slots - left), node end
  end
  if #fewer > 0 then redis.call('ZADD', held, unpack(fewer)) end
  if #gone > 0 then redis.call('ZREM', held, unpack(gone)) end
  if #offered > 0 then redis.call('ZADD', free, 'XX', unpack(offered)) end
end
