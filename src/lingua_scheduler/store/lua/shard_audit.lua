-- shard_audit: find entries of nodes that are not registered, and wrong counts; with `repair` correct them.
-- Everything is read in one script, so that a change in progress is not reported. Leases and their counts are only
-- reported: attempt_end and ledger_rebuild correct those.
-- Replies: a list of kind, subject, detail, kind, subject, detail …
-- include: clock
-- include: number
-- include: words
-- include: lease
local seen     = KEYS[1]             -- zset node -> alive until
local free     = KEYS[2]             -- zset node -> free slots
local held     = KEYS[3]             -- zset node -> live leases
local limits   = KEYS[4]             -- hash node -> slots
local owners   = KEYS[5]             -- hash node -> epoch instance connection features
local leases   = KEYS[6]             -- zset lease -> deadline
local summary  = KEYS[7]             -- hash pool -> nodes
local wide     = KEYS[8]             -- hash wide pool -> its definition
local things   = {unpack(KEYS, 9)}   -- pools and profiles, one for each of `names`
local names    = ARGV[1]             -- pool:<name> or node:<id>, in the order of `things`
local repair   = ARGV[2]             -- 1: repair
local alive_ms = ARGV[3]             -- for how long a node counts as alive of which nothing is known
local now_ms   = ARGV[4]

local found, known, counted = {}, {}, {}
local function tell(kind, subject, detail)
  found[#found + 1], found[#found + 2], found[#found + 3] = kind, subject, tostring(detail or '')
end
local mend = repair == '1'

for _, node in ipairs(redis.call('HKEYS', owners)) do known[node] = true end
for _, lease in ipairs(redis.call('ZRANGE', leases, 0, -1)) do
  local _, _, node = read_lease(lease)
  if node then
    counted[node] = (counted[node] or 0) + 1
    if not known[node] then tell('lease_of_nobody', lease, node) end
  end
end
for column, key in pairs({seen = seen, free = free}) do
  for _, node in ipairs(redis.call('ZRANGE', key, 0, -1)) do
    if not known[node] then
      tell(column .. '_of_nobody', node)
      if mend then redis.call('ZREM', key, node) end
    end
  end
end
for _, node in ipairs(redis.call('HKEYS', limits)) do
  if not known[node] then
    tell('limit_of_nobody', node)
    if mend then redis.call('HDEL', limits, node) end
  end
end
for node in pairs(known) do
  if not redis.call('ZSCORE', seen, node) then
    tell('never_seen', node)
    if mend then redis.call('ZADD', seen, clock(now_ms) + alive_ms, node) end
  end
  local open = redis.call('ZSCORE', free, node)
  -- An unreadable limit is ignored, as in ledger_rebuild.
  local limit = read_slots(redis.call('HGET', limits, node) or '0')
  local right = limit and math.max(0, limit - (counted[node] or 0))
  if open and right and tonumber(open) ~= right then tell('free_wrong', node, open .. ' ' .. right) end
end
local believed = redis.call('ZRANGE', held, 0, -1, 'WITHSCORES')
for i = 1, #believed, 2 do
  local node, count = believed[i], counted[believed[i]] or 0
  if tonumber(believed[i + 1]) ~= count then tell('held_wrong', node, believed[i + 1] .. ' ' .. count) end
  counted[node] = nil
end
for node, count in pairs(counted) do tell('held_wrong', node, '0 ' .. count) end

for i, name in ipairs(words(names)) do
  local kind, of = string.match(name, '^(%a+):(.*)$')
  if kind == 'node' then
    if not known[of] and redis.call('EXISTS', things[i]) == 1 then
      tell('profile_of_nobody', of)
      if mend then redis.call('DEL', things[i]) end
    end
  else
    for _, node in ipairs(redis.call('SMEMBERS', things[i])) do
      if not known[node] then
        tell('member_unknown', of, node)
        if mend then redis.call('SREM', things[i], node) end
      end
    end
    local size, summed = redis.call('SCARD', things[i]), redis.call('HGET', summary, of)
    if tonumber(summed or 0) ~= size then
      tell('summary_wrong', of, (summed or 0) .. ' ' .. size)
      if mend and size == 0 then redis.call('HDEL', summary, of) end
      if mend and size > 0 then redis.call('HSET', summary, of, size) end
    end
    if string.sub(of, 1, 2) == '*:' then
      local is_defined = redis.call('HEXISTS', wide, of) == 1
      if size > 0 and not is_defined then tell('definition_missing', of) end
      if size == 0 and is_defined then
        tell('definition_of_nobody', of)
        if mend then redis.call('HDEL', wide, of) end
      end
    end
  end
end
return found
