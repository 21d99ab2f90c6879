-- Double a node's usable slots after a number of successful jobs without a failure between them.
local function grow(node, is_good, after, trust, free, held, limits)
  local believed, good, claimed = string.match(redis.call('HGET', trust, node) or '', '^(%d+) (%d+) (%d+)$')
  believed, good, claimed = read_slots(believed), read_number(good, 9), read_slots(claimed)
  if not (believed and good and claimed) or believed >= claimed then return end
  good = is_good and good + 1 or 0
  if good >= after then
    good, believed = 0, math.min(2 * believed, claimed)
    redis.call('HSET', limits, node, believed)
    redis.call('ZADD', free, 'XX', math.max(0, believed - (redis.call('ZSCORE', held, node) or 0)), node)
  end
  redis.call('HSET', trust, node, string.format('%d %d %d', believed, good, claimed))
end
