-- pool_survey: why each node of a shard would or would not be chosen for a job now. Read-only.
-- Replies: a list of "node verdict held limit left_ms service", members of the pool first, then some of the others
-- include: clock
-- include: words
-- include: random_members
local pool         = KEYS[1]   -- set of node ids
local seen         = KEYS[2]   -- zset node -> alive until
local free         = KEYS[3]   -- zset node -> free slots, only nodes that accept jobs
local held         = KEYS[4]   -- zset node -> live leases
local limits       = KEYS[5]   -- hash node -> slots
local owners       = KEYS[6]   -- hash node -> epoch instance connection features
local sick         = KEYS[7]   -- zset node, or node and service -> out until
local others       = {unpack(KEYS, 8)}   -- sets the node must be in too, then wide pools, whose nodes serve all of it
local excluded     = ARGV[1]   -- node ids
local services     = ARGV[2]   -- kinds of service the job needs
local most_members = ARGV[3]
local most_others  = ARGV[4]
local wides        = ARGV[5]   -- how many of the last keys are wide pools
local dice         = ARGV[6]   -- random number from the caller, because Redis seeds every script alike
local now_ms       = ARGV[7]

local moment = clock(now_ms)
math.randomseed(dice)
local also, sets = {unpack(others, 1, #others - wides)}, {pool, unpack(others, #others - wides + 1)}
local needed, out, found, in_wide = words(services), {}, {}, {}
for _, node in ipairs(words(excluded)) do out[node] = true end

local function is_sick(name)
  local left = tonumber(redis.call('ZSCORE', sick, name) or 0) - moment
  return left > 0 and string.format('%.0f', left)
end

local function judged(node)
  local slots = redis.call('ZSCORE', free, node)
  for _, other in ipairs(also) do
    if not in_wide[node] and redis.call('SISMEMBER', other, node) == 0 then return 'not_in_pool 0 0 0 -' end
  end
  if out[node] then return 'excluded 0 0 0 -' end
  if tonumber(redis.call('ZSCORE', seen, node) or 0) <= moment then return 'stale 0 0 0 -' end
  local left = is_sick(node)
  if left then return 'quarantined 0 0 ' .. left .. ' -' end
  for _, service in ipairs(needed) do
    left = is_sick(node .. ' ' .. service)
    if left then return 'unavailable 0 0 ' .. left .. ' ' .. service end
  end
  if not slots then return 'not_taking_work 0 0 0 -' end
  local taken = (redis.call('ZSCORE', held, node) or '0') .. ' ' .. (redis.call('HGET', limits, node) or '0')
  return (tonumber(slots) > 0 and 'free ' or 'full ') .. taken .. ' 0 -'
end

local function is_member(node)
  for _, set in ipairs(sets) do
    if redis.call('SISMEMBER', set, node) == 1 then return true end
  end
end

for _, node in ipairs(draw(sets, tonumber(most_members), in_wide)) do
  found[#found + 1] = node .. ' ' .. judged(node)
end
local others_left = tonumber(most_others)
local known = redis.call('HGETALL', owners)
for i = 1, #known, 2 do
  local node = known[i]
  if others_left <= 0 then break end
  if not is_member(node) then
    -- A drained node has left every pool, and offers no slots.
    found[#found + 1] = node .. (redis.call('ZSCORE', free, node) and ' not_in_pool' or ' draining') .. ' 0 0 0 -'
    others_left = others_left - 1
  end
end
return found
