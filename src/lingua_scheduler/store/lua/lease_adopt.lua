-- lease_adopt: a node runs jobs that no lease accounts for (Redis lost them, or gave them up too early): the slots are
-- taken in fact, so they are taken in the ledger too, until the node lets go or the bound passes. Asked again for a job
-- that was adopted, the bound begins anew. The caller names the lease it believes each job to have: while they are there,
-- or the jobs were adopted, nothing else of the ledger is read.
-- Replies: adopted job… (those adopted anew) | superseded (another connection owns the node)
-- include: clock
-- include: number
-- include: lease
-- include: leased
-- include: adopting
local leases   = KEYS[1]   -- zset lease -> deadline
local free     = KEYS[2]   -- zset node -> free slots
local held     = KEYS[3]   -- zset node -> live leases
local limits   = KEYS[4]   -- hash node -> slots
local owners   = KEYS[5]   -- hash node -> epoch instance connection features
local node     = ARGV[1]
local instance = ARGV[2]
local link     = ARGV[3]
local bound_ms = ARGV[4]
local now_ms   = ARGV[5]
local believed = {unpack(ARGV, 6)}  -- of each job its lease, as far as the caller knows; or of attempt 0

local owner = redis.call('HGET', owners, node)
local owner_instance, owner_link = string.match(owner or '', '^%d+ (%S+) (%S+) ')
if owner_instance ~= instance or owner_link ~= link then return {'superseded'} end
local moment = clock(now_ms)
local jobs, names, missing = {}, {}, {}
for i, lease in ipairs(believed) do
  jobs[i] = string.match(lease, '^(.-)#')
  names[2 * i - 1], names[2 * i] = lease, jobs[i] .. '#0#' .. node
end
local deadlines = redis.call('ZMSCORE', leases, unpack(names))
for i, job in ipairs(jobs) do
  if tonumber(deadlines[2 * i] or 0) > moment then
    redis.call('ZADD', leases, 'GT', moment + bound_ms, names[2 * i])
  elseif tonumber(deadlines[2 * i - 1] or 0) <= moment then
    missing[#missing + 1] = job
  end
end
if #missing == 0 then return {'adopted'} end
-- Another attempt's lease may account for them.
local adopted, leased = adopt(node, missing, moment + bound_ms, moment, leases)
if #adopted > 0 then
  redis.call('ZADD', held, leased, node)
  redis.call('ZADD', free, 'XX', math.max(0, (read_slots(redis.call('HGET', limits, node)) or 0) - leased), node)
end
return {'adopted', unpack(adopted)}
