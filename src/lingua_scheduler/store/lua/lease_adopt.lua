-- lease_adopt: create leases for jobs that a node runs without one (Redis lost the lease, or it ended too early). The
-- slots are in use, so the ledger must say so, until the node releases them or a time limit passes. A repeat for an
-- adopted job restarts the limit. The caller names the lease it expects each job to have: if these exist, or the jobs
-- are already adopted, nothing else of the ledger is read.
-- Replies: adopted job… (those newly adopted) | superseded (another connection owns the node)
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
local believed = {unpack(ARGV, 6)}  -- of each job the lease the caller expects; attempt 0 if it expects none

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
