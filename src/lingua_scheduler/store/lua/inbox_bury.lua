-- inbox_bury: a letter that cannot be handled becomes a dead letter. Of those the oldest give way: there may
-- be speech in them, so neither are they kept for ever, nor any number of them.
-- Replies: buried entry | gone (handled or buried already)
local inbox      = KEYS[1]   -- stream of letters
local dead       = KEYS[2]   -- stream of dead letters
local group      = ARGV[1]
local entry      = ARGV[2]
local reason     = ARGV[3]
local deliveries = ARGV[4]
local max_dead   = ARGV[5]
local keep_ms    = ARGV[6]

local letter = redis.call('XRANGE', inbox, entry, entry)[1]
redis.call('XACK', inbox, group, entry)
if not letter then return {'gone'} end
local fields = letter[2]
for _, word in ipairs({'reason', reason, 'deliveries', deliveries}) do fields[#fields + 1] = word end
local buried = redis.call('XADD', dead, 'MAXLEN', max_dead, '*', unpack(fields))
redis.call('XTRIM', dead, 'MINID', string.match(buried, '^%d+') - keep_ms)
redis.call('PEXPIRE', dead, keep_ms)
redis.call('XDEL', inbox, entry)
return {'buried', buried}
