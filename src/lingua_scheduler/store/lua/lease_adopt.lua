-- lease_adopt: a node runs jobs that no lease accounts for (Redis lost them, or gave them up too early): the slots are
-- taken in fact, so they are taken in the ledger too, until the node lets go or the bound passes.
-- Replies: adopted count | superseded (another connection owns the node)
-- include: clock
-- include: leased
local leases   = KEYS[1]   -- zset lease -> deadline
local free     = KEYS[2]   -- zset node -> free slots
local held     = KEYS[3]   -- zset node -> live leases
local limits   = KEYS[4]   -- hash node -> slots
local owners   = KEYS[5]   -- hash node -> epoch instance connection acknowledges
local node     = ARGV[1]
local instance = ARGV[2]
local link     = ARGV[3]
local bound_ms = ARGV[4]
local now_ms   = ARGV[5]
local jobs     = {unpack(ARGV, 6)}

local owner = redis.call('HGET', owners, node)
local owner_instance, owner_link = string.match(owner or '', '^%d+ (%S+) (%S+) ')
if owner_instance ~= instance or owner_link ~= link then return {'superseded'} end
local accounted = {}
for _, lease in ipairs(leases_of(node, leases)) do accounted[string.match(lease, '^(.-)#')] = true end

local deadline, adopted = clock(now_ms) + bound_ms, 0
for _, job in ipairs(jobs) do
  if not accounted[job] then
    redis.call('ZADD', leases, deadline, job .. '#0#' .. node)
    adopted = adopted + 1
  end
end
if adopted > 0 then
  local running = tonumber(redis.call('ZINCRBY', held, adopted, node))
  redis.call('ZADD', free, 'XX', math.max(0, (redis.call('HGET', limits, node) or 0) - running), node)
end
return {'adopted', adopted}
