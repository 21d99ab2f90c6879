-- Some leases less on a node: its free slots follow from its limit, unless it takes no work.
local function give_back(node, slots, free, held, limits)
  local running = tonumber(redis.call('ZINCRBY', held, -slots, node))
  if running <= 0 then redis.call('ZREM', held, node) end
  local limit = redis.call('HGET', limits, node)
  if limit then redis.call('ZADD', free, 'XX', math.max(0, limit - running), node) end
end
